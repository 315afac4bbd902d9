"""Runs shell commands and draws what a terminal would show as an SVG picture.

    python3 reference/terminal_picture.py docs/pictures/serve.svg <<'END'
    peregrine --version
    END

Each line of standard input is a command; what stands behind ' ## ' is run in its place, for commands that need a
server in the background or a filter that would only distract. The picture shows what was really printed.
"""

import html
import subprocess
import sys
import textwrap

WIDTH, LINE, SIZE, MARGIN = 118, 19, 14, 18


def run(commands):
    """Yields (kind, text) lines: what was typed and what came out."""
    for command in commands:
        shown, _, real = command.partition(" ## ")
        first, *more = textwrap.wrap(shown, WIDTH - 2)
        yield "typed", first
        for part in more:
            yield "continued", "    " + part
        done = subprocess.run(["bash", "-c", real or shown], capture_output=True, text=True, timeout=300)
        for line in (done.stdout + done.stderr).rstrip("\n").split("\n"):
            for part in textwrap.wrap(line, WIDTH, drop_whitespace=False) or [""]:
                yield "printed", part
        yield "printed", ""


def spaced(text):
    """Text whose spaces no viewer takes for one."""
    return html.escape(text).replace(" ", "\u00a0")


def picture(lines):
    height = MARGIN * 2 + LINE * len(lines)
    width = MARGIN * 2 + int(WIDTH * SIZE * 0.602)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f'<rect width="{width}" height="{height}" rx="8" fill="#10141a"/>',
        f'<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="{SIZE}">',
    ]
    for index, (kind, text) in enumerate(lines):
        y = MARGIN + LINE * index + SIZE
        prompt = '<tspan fill="#6cc28a">$ </tspan>' if kind == "typed" else ""
        colour = "#9fb0c0" if kind == "printed" else "#f2f5f8"
        out.append(f'<text x="{MARGIN}" y="{y}" fill="{colour}">{prompt}{spaced(text)}</text>')
    return "\n".join(out + ["</g>", "</svg>", ""])


def main():
    commands = [line.rstrip("\n") for line in sys.stdin if line.strip()]
    lines = list(run(commands))
    while lines and not lines[-1][1]:
        lines.pop()
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(picture(lines))


if __name__ == "__main__":
    main()
