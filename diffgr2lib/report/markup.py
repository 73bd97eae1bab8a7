"""Inert text, data and whole pages: what every fragment of HTML is made with."""

import json
from collections.abc import Iterable
from html import escape
from typing import Any

from diffgr2lib.report.lane import visible
from diffgr2lib.report.palette import asset, style_sheet


def shown(text: str) -> str:
    """Any text as inert HTML."""
    return escape(visible(text).replace("␣", " "))


def json_block(data: dict[str, Any]) -> str:
    """Data for the script, in a block that no text can close."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return f'<script type="application/json" class="data">{text}</script>'


def with_assets(body: str) -> str:
    """A fragment that carries its own style and script."""
    return f"<style>{style_sheet()}</style>\n{body}\n<script>{asset('viewer.js')}</script>"


def page(title: str, parts: Iterable[str]) -> str:
    """A whole page that asks no host for anything."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{shown(title)}</title>\n"
        "<style>body { margin: 24px auto; padding: 0 16px; max-width: 1280px; }"
        " @media (prefers-color-scheme: dark) { body { background: #0e1013; } }</style>\n"
        f"</head>\n<body>\n<main>{body}</main>\n</body>\n</html>\n"
    )
