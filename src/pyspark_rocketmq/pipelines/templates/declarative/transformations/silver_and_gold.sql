-- Silver: orders that can be read. Gold: what they come to, by kind.
CREATE MATERIALIZED VIEW orders_silver AS
SELECT keys AS order_id, tags AS kind, told.amount, told.at
FROM (SELECT keys, tags, from_json(body, 'amount DOUBLE, at TIMESTAMP') AS told FROM orders_bronze)
WHERE told.amount IS NOT NULL;

CREATE MATERIALIZED VIEW orders_gold AS
SELECT kind, count(*) AS orders, round(sum(amount), 2) AS amount
FROM orders_silver
GROUP BY kind;
