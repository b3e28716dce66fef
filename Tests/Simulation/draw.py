#!/usr/bin/env python3
"""Draws what `make simulate` printed: python3 Tests/Simulation/draw.py < output > docs/mesh.svg"""

import math
import re
import sys

HEAD = re.compile(r"^(\S+): ([\d]+) nodes, degree ([\d.]+)")
KIND = re.compile(
    r"^  (to one|to all): (\d+) of (\d+) .*?; delay ([\d.-]+) s, p99 ([\d.-]+) s \(best ([\d.-]+), ([\d.-]+)\); "
    r"per delivery ([\d.]+) \+ ([\d.]+) ack, smallest ([\d.]+) .*?flooding ([\d.]+)"
)
LEFT, TOP, ROW, BAR, WIDTH = 190, 60, 58, 13, 560
SERIES = [("flooding", "#c9c2b8"), ("nearshare", "#2f6f8f"), ("smallest", "#8fb58a")]


def read(lines):
    name, rows = None, []
    for line in lines:
        if head := HEAD.match(line):
            name = head[1]
        elif kind := KIND.match(line):
            one, values = kind[1], [float(value) for value in kind.groups()[3:]]
            rows.append((f"{name}, {one}", {"flooding": values[7], "nearshare": values[4], "smallest": values[6]}))
    return rows


def draw(rows):
    low, high = -0.1, math.log10(max(max(values.values()) for _, values in rows)) + 0.2

    def x(value):
        return LEFT + WIDTH * (math.log10(max(value, 0.8)) - low) / (high - low)

    height = TOP + ROW * len(rows) + 40
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 90} {height}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="22" font-size="15">Transmissions for each delivery, logarithmic</text>',
    ]
    for index, (series, colour) in enumerate(SERIES):
        out.append(
            f'<rect x="{LEFT + 120 * index}" y="32" width="12" height="12" fill="{colour}"/>'
            f'<text x="{LEFT + 120 * index + 17}" y="42">{series}</text>'
        )
    for power in range(0, int(high) + 1):
        at = x(10**power)
        out.append(
            f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{height - 34}" stroke="#e4e0da"/>'
            f'<text x="{at:.1f}" y="{height - 18}" text-anchor="middle" fill="#666">{10**power:,}</text>'
        )
    for row, (label, values) in enumerate(rows):
        top = TOP + ROW * row + 6
        out.append(f'<text x="{LEFT - 8}" y="{top + 24}" text-anchor="end">{label}</text>')
        for index, (series, colour) in enumerate(SERIES):
            value = values[series]
            y = top + index * (BAR + 2)
            out.append(
                f'<rect x="{LEFT}" y="{y}" width="{max(1, x(value) - LEFT):.1f}" height="{BAR}" fill="{colour}"/>'
                f'<text x="{x(value) + 4:.1f}" y="{y + 11}" fill="#444">{value:,.2f}</text>'
            )
    out.append("</svg>")
    return "\n".join(out)


if __name__ == "__main__":
    print(draw(read(sys.stdin)))
