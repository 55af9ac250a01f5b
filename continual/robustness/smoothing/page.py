"""One page about one certification or several beside each other."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from continual.reports import markup
from continual.reports.atomic_file import write_atomically
from continual.robustness.smoothing.certificates import Certificates
from continual.robustness.smoothing.figures import certified_curves, draws_per_image, p_a_histograms
from continual.robustness.smoothing.report import certified_point

_LEAD = "Gaussian smoothing: with probability 1 − α a certificate holds for every perturbation below its radius."
_FIGURES = (
    ("certified_accuracy", certified_curves, "Right and certified at the radius or above. Dotted: the ceiling."),
    ("p_a", p_a_histograms, "ACR rewards images near 1; this shows how many there are. Left of the line it abstains."),
    ("draws", draws_per_image, "Draws until every stated radius was decided; the rest never stops before the last."),
)


def write_page(named: Mapping[str, Certificates], radii: Sequence[float], folder: str | Path) -> Path:
    """Write `certification.html`, which stands alone, and `figures/*.png` beside it.

    Args:
        named: certifications, by name.
        radii: at which the table reads them; those without labels are not in it.
        folder: made when missing.

    Returns:
        The path of the page.
    """
    folder = Path(folder)
    figures = [markup.Illustration(name, partial(draw, named), caption, caption) for name, draw, caption in _FIGURES]
    known = {name: found for name, found in named.items() if all(row.label is not None for row in found.rows)}
    sections = [
        markup.section("Certified accuracy", _accuracy_table(known, radii) if known else ""),
        markup.section("Figures", markup.pictures(figures, folder / "figures")),
        markup.section("Budgets", _budget_table(named)),
    ]
    html = markup.page("Certified robustness", _LEAD, "\n".join(sections))
    return write_atomically(folder / "certification.html", html.encode())


def _accuracy_table(named: Mapping[str, Certificates], radii: Sequence[float]) -> str:
    head = ["", *(f"r = {radius:g}" for radius in radii), "ACR", "abstains", "draws an image"]
    rows = []
    for name, found in named.items():
        points = [certified_point(found, radius) for radius in radii]
        shares = [f"{100 * point['accuracy']:.1f}" for point in points]
        acr = "–" if found.budget.rule.sequential else f"{found.average_certified_radius:.4f}"
        spent = f"{found.column('draws').mean():.0f}"
        rows.append([name, *shares, acr, f"{100 * found.abstention_rate:.1f}", spent])
    caption = "Percent of images; ACR in raw pixel units, from fixed samples only. Compare equal budgets only."
    return markup.table(head, rows, caption)


def _budget_table(named: Mapping[str, Certificates]) -> str:
    rows = [[name, str(found.budget), str(found.network), str(len(found))] for name, found in named.items()]
    return markup.table(["", "budget", "network", "images"], rows, "What decides these numbers.", text_columns=3)
