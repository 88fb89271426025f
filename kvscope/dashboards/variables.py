"""What can be chosen on a dashboard."""

from __future__ import annotations

from collections.abc import Iterable

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common, dashboard

from kvscope.dashboards.panels import Board
from kvscope.metrics.labels import PROMPTS, STAGE_CLASSES

TAG = "kvscope"
"""Of dashboards and of annotations."""
SOURCE = common.DataSourceRef(type_val="prometheus", uid="${datasource}")
"""The data source that is chosen: no server's own uid is written into a dashboard."""
_ALL = dashboard.VariableOption(selected=True, text=["All"], value=["$__all"])


def variables(board: Board) -> list[Builder[dashboard.VariableModel]]:
    """Builders, in the order in which they are shown."""
    found: list[Builder[dashboard.VariableModel]] = [
        build.DatasourceVariable("datasource").label("Data source").type("prometheus"),
        _asked("model", "Model", "label_values(kvscope_requests_total, model_name)").all_value(".*"),
        _asked("connector", "Connector", 'label_values(kvscope_requests_total{model_name=~"$model"}, connector)')
        .all_value(".*"),
        # Without a value for all: then all are those of the connector.
        _asked("engine", "Engine",
               'label_values(kvscope_engine_info{model_name=~"$model",connector=~"$connector"}, engine_name)'),
    ]  # fmt: skip
    if board.prompts:
        found.append(_listed("prompt", "Prompt tokens", PROMPTS))
    if board.stages:
        found.append(_listed("stage", "Stage", [stage for stage, _ in STAGE_CLASSES]))
    return found


def _listed(name: str, label: str, values: Iterable[str]) -> build.CustomVariable:
    variable = build.CustomVariable(name).label(label).values(",".join(values)).multi(True)
    return variable.include_all(True).all_value(".*").current(_ALL)


def _asked(name: str, label: str, query: str) -> build.QueryVariable:
    return (
        build.QueryVariable(name).label(label).datasource(SOURCE).query({"query": query, "refId": name})
        .definition(query).refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(dashboard.VariableSort.ALPHABETICAL_ASC)
        .multi(True).include_all(True).current(_ALL)
    )  # fmt: skip
