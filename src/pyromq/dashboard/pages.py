"""The frames of the pages. What is in them is fetched and drawn by the scripts in `static`."""

from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple


class Page(NamedTuple):
    """A page: its path, its script and its title; in the menu if it has a label there."""

    path: str
    script: str
    title: str
    label: str | None = None
    #: Which entry of the menu is marked while it is shown.
    within: str | None = None


PAGES: Final[Sequence[Page]] = (
    Page("/", "cluster", "Cluster", "Cluster"),
    Page("/topics", "topics", "Topics", "Topics"),
    Page("/topic", "topic", "Topic", None, "/topics"),
    Page("/groups", "groups", "Groups", "Groups"),
    Page("/group", "group", "Group", None, "/groups"),
    Page("/messages", "messages", "Messages", "Messages"),
    Page("/message", "message", "Message", None, "/messages"),
    Page("/dead-letters", "letters", "Dead letters", "Dead letters"),
    Page("/clients", "clients", "Clients", "Clients"),
    Page("/access", "access", "Access", "Access"),
    Page("/health", "health", "Health", "Health"),
)


def shell(page: Page, *, csrf: str, name_server: str, is_read_only: bool, has_login: bool) -> str:
    """Return a page's frame: head, menu, and the empty main part that its script fills."""
    at = page.within or page.path
    menu = "".join(
        f'<a href="{one.path}"{" aria-current=page" if one.path == at else ""}>{escape(one.label)}</a>'
        for one in PAGES
        if one.label is not None
    )
    read_only = (
        '<span class="badge" title="Started with --read-only">read only</span>' if is_read_only else ""
    )
    logout = '<button id="logout" type="button" class="quiet">Log out</button>' if has_login else ""
    return f"""<!doctype html>
<html lang="en">
<head>
{_head(page.title)}
<meta name="csrf" content="{escape(csrf, quote=True)}">
<meta name="read-only" content="{int(is_read_only)}">
<script type="module" src="/static/{page.script}.js"></script>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header>
<a class="brand" href="/"><img src="/static/logo.svg" alt="" width="22" height="22">PyroMQ</a>
<nav aria-label="Pages">{menu}</nav>
<div class="aside">{read_only}
<span id="live" class="live" role="status"><i aria-hidden="true"></i><span>connecting</span></span>
<code title="Name server">{escape(name_server)}</code>
<button id="theme" type="button" class="quiet" aria-label="Switch between light and dark"></button>
{logout}</div>
</header>
<main id="main" tabindex="-1"><noscript>This page draws live numbers with scripts: allow them here.
Without them, <code>pyromq admin</code> says the same in a terminal.</noscript></main>
<div id="toasts" aria-live="polite"></div>
</body>
</html>
"""


def login(*, failure: str | None, next_path: str) -> str:
    """Return the page that asks for the password."""
    said = f'<p class="failure" role="alert">{escape(failure)}</p>' if failure else ""
    return f"""<!doctype html>
<html lang="en">
<head>
{_head("Log in")}
</head>
<body class="login">
<main>
<form method="post" action="/login">
<h1><img src="/static/logo.svg" alt="" width="28" height="28">PyroMQ</h1>
{said}
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" required autofocus>
<input type="hidden" name="next" value="{escape(next_path, quote=True)}">
<button type="submit" class="primary">Log in</button>
<p class="hint">The one in PYROMQ_DASHBOARD_PASSWORD, or in the file of --password-file.</p>
</form>
</main>
</body>
</html>
"""


def _head(title: str) -> str:
    return f"""<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)} · PyroMQ</title>
<link rel="icon" href="/static/logo.svg" type="image/svg+xml">
<link rel="stylesheet" href="/static/style.css">
<script src="/static/theme.js"></script>"""
