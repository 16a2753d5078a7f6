"""A live web page for a cluster: brokers, topics, groups, messages, dead letters, clients.

It needs the extra `dashboard` (Starlette and uvicorn) and asks as any admin client does, so it works on
Apache's clusters too.

    browser ── page, JSON, server-sent events ── app ── views ── Picture ◄── Sampler ── snapshots ── brokers
                                                  └──── messages, letters, changes ────── requests ──┘

Lists and charts show the `Picture`, which the `Sampler` renews in the background, with a bounded number of
requests a round. A page never waits for a thousand topics.
"""
