"""Questions that pages of the dashboard ask before what cannot be taken back."""

from playwright.sync_api import Page, expect


def be_sure(page: Page, verb: str, *losses: str) -> None:
    """Answer the question before what cannot be taken back; it names what is lost."""
    asked = page.get_by_role("dialog").filter(has=page.get_by_role("button", name="Cancel"))
    lost = asked.get_by_role("list", name="What is lost")
    for one in losses:
        expect(lost).to_contain_text(one)
    asked.get_by_role("button", name=verb, exact=True).click()
