"""Dashboards in Grafana's words. The only module that knows its SDK."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from string import ascii_uppercase
from typing import Any

from grafana_foundation_sdk.builders import common as options
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from kvscope.dashboards.panels import Board, Limits, Look, Panel, Query, Row
from kvscope.dashboards.promql import series
from kvscope.dashboards.variables import SOURCE, TAG, variables
from kvscope.metrics.labels import CLASSES

WIDE = 24
COLOURS = dict(zip(CLASSES, ("#8e8e8e", "#f2cc0c", "#5794f2", "#e02f44", "#73bf69", "#b877d9"), strict=True))
"""One colour for each class on every dashboard: the bar of coordination is the red one."""
Drawn = timeseries.Panel | stat.Panel | table.Panel | heatmap.Panel
_DASHED, _OFF = common.GraphThresholdsStyleMode.DASHED, common.GraphThresholdsStyleMode.OFF


def rendered(board: Board) -> str:
    """JSON of a dashboard, ending in a newline."""
    return json.dumps(document(board), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def document(board: Board) -> dict[str, Any]:
    """The same as plain data."""
    made = (
        build.Dashboard(board.title).uid(board.uid).description(board.text).tags([TAG]).timezone("browser")
        .time("now-1h", "now").refresh("30s").tooltip(dashboard.DashboardCursorSync.CROSSHAIR).editable()
        .link(_siblings()).annotations(_annotations())
    )  # fmt: skip
    for variable in variables(board):
        made.with_variable(variable)
    identity = 1
    for row, at in _placed(board):
        made.with_row(build.Row(row.title).id(identity).grid_pos(_place(0, at[0][1] - 1, WIDE, 1)))
        for number, (panel, (x, y)) in enumerate(zip(row.panels, at, strict=True)):
            made.with_panel(_panel(panel).id(identity + 1 + number).grid_pos(_place(x, y, panel.width, panel.height)))
        identity += 1 + len(row.panels)
    return _trimmed(json.loads(json.dumps(made.build(), cls=JSONEncoder)))


def _trimmed(found: dict[str, Any]) -> dict[str, Any]:
    """Without what the SDK writes unasked and Grafana's schema has not, or not there."""
    for variable in found["templating"]["list"]:
        for name in ("auto", "auto_min", "auto_count"):
            variable.pop(name, None)
    for panel in found["panels"]:
        panel.get("options", {}).pop("footer", None)
    return found


def _placed(board: Board) -> Iterator[tuple[Row, list[tuple[int, int]]]]:
    """Each row with the places of its panels: from left to right, a new line where one does not fit."""
    y = 0
    for row in board.rows:
        x, y, tall, at = 0, y + 1, 0, []
        for panel in row.panels:
            if x + panel.width > WIDE:
                x, y, tall = 0, y + tall, 0
            at.append((x, y))
            x, tall = x + panel.width, max(tall, panel.height)
        y += tall
        yield row, at


def _place(x: int, y: int, w: int, h: int) -> dashboard.GridPos:
    return dashboard.GridPos(x=x, y=y, w=w, h=h)


def _siblings() -> build.DashboardLink:
    return (
        build.DashboardLink("kvscope").type(dashboard.DashboardLinkType.DASHBOARDS).tags([TAG])
        .as_dropdown(False).include_vars(True).keep_time(True)
    )  # fmt: skip


def _annotations() -> list[Builder[dashboard.AnnotationQuery]]:
    """What `kvscope annotate` marked, and starts of engines."""
    target: Any = build.AnnotationTarget().type("tags").tags([TAG]).match_any(False).limit(100)
    marks = (
        build.AnnotationQuery().name("Incidents and deployments").enable(True).icon_color("orange").type("tags")
        .datasource(common.DataSourceRef(type_val="grafana", uid="-- Grafana --")).target(target)  # Grafana's own
    )  # fmt: skip
    starts = (
        build.AnnotationQuery().name("Engine starts").enable(True).icon_color("blue").datasource(SOURCE)
        .expr(f"increase({series('engine_starts_total')}[1m]) > 0")
        .title_format("engine started").text_format("{{engine_name}}").step("30s")
    )  # fmt: skip
    return [marks, starts]


def _panel(panel: Panel) -> Drawn:
    """The builder of a panel, without its place."""
    made = _DRAWN[panel.look](panel)
    made.title(panel.title).description(f"{panel.text}\n\nThresholds: {panel.limits.reason}.")
    made.datasource(SOURCE).unit(panel.unit.value).no_value(panel.nothing).thresholds(_thresholds(panel.limits))
    for letter, query in zip(ascii_uppercase, panel.queries, strict=False):
        made.with_target(_target(panel, query, letter))
    if panel.leads:
        made.data_links([_link(panel)])
    if panel.repeated:
        made.repeat(panel.repeated).repeat_direction("h")
    return made


def _thresholds(limits: Limits) -> build.ThresholdsConfig:
    steps = [dashboard.Threshold(value=value, color=colour) for value, colour in limits.steps]
    return build.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)


def _target(panel: Panel, query: Query, letter: str) -> prometheus.Dataquery:
    made = (
        prometheus.Dataquery().ref_id(letter).datasource(SOURCE).expr(query.expr).legend_format(query.name or "__auto")
    )
    if panel.look in (Look.TABLE, Look.MATRIX):
        return made.instant().format(PromQueryFormat.TABLE)
    if panel.look is Look.STAT:
        return made.instant().format(PromQueryFormat.TIME_SERIES)
    shape = PromQueryFormat.HEATMAP if panel.look is Look.HEAT else PromQueryFormat.TIME_SERIES
    return made.range().format(shape).exemplar(panel.exemplars)


def _link(panel: Panel) -> build.DashboardLink:
    """To another dashboard, with what is chosen here; of the engine or the stage that was clicked on."""
    chosen = [f"${{{name}:queryparam}}" for name in ("datasource", "model", "connector", "engine")]
    if panel.leads == "engines" and all("{{engine_name}}" in query.name for query in panel.queries):
        chosen[-1] = "var-engine=${__field.labels.engine_name}"
    if panel.leads == "handoff" and all("{{stage}}" in query.name for query in panel.queries):
        chosen.append("var-stage=${__field.labels.stage}")
    url = f"/d/kvscope-{panel.leads}?{'&'.join(('${__url_time_range}', *chosen))}"
    return build.DashboardLink(f"Open {panel.leads}").url(url).target_blank(False)


def _lines(panel: Panel) -> timeseries.Panel:
    marked = panel.limits.warn is not None
    legend = options.VizLegendOptions().display_mode(common.LegendDisplayMode.LIST)
    made = (
        timeseries.Panel().line_width(1).fill_opacity(5).show_points(common.VisibilityMode.AUTO).span_nulls(False)
        .legend(legend.placement(common.LegendPlacement.BOTTOM).show_legend(True))
        .tooltip(options.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING))
        .thresholds_style(options.GraphThresholdsStyleConfig().mode(_DASHED if marked else _OFF))
    )  # fmt: skip
    log = options.ScaleDistributionConfig().type(common.ScaleDistribution.LOG).log(10)
    return _coloured(made.scale_distribution(log) if panel.decades else made.min(0))


def _coloured(made: timeseries.Panel) -> timeseries.Panel:
    for cls, colour in COLOURS.items():
        value = {"mode": "fixed", "fixedColor": colour}
        made.override_by_regexp(f"/^{cls}\\b/", [dashboard.DynamicConfigValue(id_val="color", value=value)])
    return made


def _stack(panel: Panel) -> timeseries.Panel:
    stacking = options.StackingConfig().mode(common.StackingMode.NORMAL).group("A")
    return _lines(panel).stacking(stacking).fill_opacity(60).line_width(0)


def _stat(panel: Panel) -> stat.Panel:
    several = len(panel.queries) > 1 or "{{" in panel.queries[0].name
    text = common.BigValueTextMode.VALUE_AND_NAME if several else common.BigValueTextMode.VALUE
    return (
        stat.Panel().text_mode(text).graph_mode(common.BigValueGraphMode.NONE)
        .color_mode(common.BigValueColorMode.VALUE).reduce_options(options.ReduceDataOptions().calcs(["lastNotNull"]))
    )  # fmt: skip


def _table(panel: Panel) -> table.Panel:
    values = (
        ["Value"]
        if len(panel.queries) == 1
        else [f"Value #{letter}" for letter in ascii_uppercase[: len(panel.queries)]]
    )
    names = {value: query.name for value, query in zip(values, panel.queries, strict=True)}
    order = {name: place for place, name in enumerate((*panel.names, *values))}
    sort = options.TableSortByFieldState().display_name(panel.queries[0].name).desc(True)
    made = (
        table.Panel().show_header(True).filterable(True).cell_options(common.TableAutoCellOptions()).sort_by([sort])
        .with_transformation(_transformed("merge"))
        .with_transformation(_transformed("filterFieldsByName", include={"names": list(order)}))
        .with_transformation(_transformed("organize", indexByName=order, renameByName=names))
    )  # fmt: skip
    for query in panel.queries:
        if query.unit is not None:
            made.override_by_name(query.name, [dashboard.DynamicConfigValue(id_val="unit", value=query.unit.value)])
    return made


def _matrix(panel: Panel) -> table.Panel:
    down, across = panel.names
    cells = common.TableColoredBackgroundCellOptions(mode=common.TableCellBackgroundDisplayMode.BASIC)
    scheme = build.FieldColor().mode(dashboard.FieldColorModeId.CONTINUOUS_YL_RD)
    return (
        table.Panel().show_header(True).cell_options(cells).color_scheme(scheme)
        .with_transformation(
            _transformed("groupingToMatrix", rowField=down, columnField=across, valueField="Value", emptyValue="null")
        )
    )  # fmt: skip


def _transformed(name: str, **how: object) -> dashboard.DataTransformerConfig:
    return dashboard.DataTransformerConfig(id_val=name, options=how)


def _heat(panel: Panel) -> heatmap.Panel:
    axis = heatmap.YAxisConfig().unit(panel.unit.value)
    return heatmap.Panel().calculate(False).y_axis(axis).cell_gap(1).tooltip(
        heatmap.HeatmapTooltip().mode(common.TooltipDisplayMode.SINGLE).y_histogram(True)
    )  # fmt: skip


_DRAWN: dict[Look, Callable[[Panel], Drawn]] = {
    Look.LINES: _lines,
    Look.STACK: _stack,
    Look.STAT: _stat,
    Look.TABLE: _table,
    Look.MATRIX: _matrix,
    Look.HEAT: _heat,
}
