"""A live web page for a cluster: brokers, topics, groups, messages, dead letters, clients.

It needs the extra `dashboard` (Starlette and uvicorn) and asks as any admin client does, so it works on
Apache's clusters too.

    browser ── page, JSON, server-sent events ── app ── views ── Picture ◄── Sampler ── requests ── brokers
                                                  └──── messages, letters, changes ────── requests ──┘

What lists and charts show is in the `Picture`, which the `Sampler` renews in the background, with so many
requests a round and no more. A page never waits for a thousand topics.
"""
