"""All that is written for Grafana, Prometheus, Docker and Kubernetes: names of files -> their text."""

from __future__ import annotations

from pathlib import Path

from kvscope.dashboards.boards import BOARDS
from kvscope.dashboards.document import rendered
from kvscope.dashboards.panels import Board
from kvscope.live.wire import METRICS, PORT
from kvscope.model.errors import InputError

FOLDER = "kvscope"
MADE = "# Made by `kvscope dashboards render`.\n"
OFTEN = "15s"
"""Between two scrapes: a rate over a panel's shortest window (a minute) then has four values."""

PROVIDER = f"""{MADE}\
apiVersion: 1
providers:
  - name: kvscope
    folder: {FOLDER}
    folderUid: {FOLDER}
    type: file
    allowUiUpdates: false
    options:
      path: /var/lib/grafana/dashboards/kvscope
"""
SOURCE = f"""{MADE}\
apiVersion: 1
datasources:
  - name: kvscope
    uid: kvscope
    type: prometheus
    access: proxy
    url: http://localhost:9090
    jsonData:
      httpMethod: POST
      timeInterval: {OFTEN}
"""
PROMETHEUS = f"""{MADE}\
global:
  scrape_interval: {OFTEN}
scrape_configs:
  - job_name: kvscope
    honor_labels: true # pod, namespace and node are the engines', not those of kvscope
    metrics_path: {METRICS}
    static_configs:
      - targets: ["localhost:{PORT}"] # kvscope serve
"""
COMPOSE = f"""{MADE}\
# Prometheus and Grafana beside kvscope serve, on this host's loopback addresses alone: docker compose up, then
# http://localhost:3000 (admin, admin).
services:
  prometheus:
    image: prom/prometheus:v3.5.0
    network_mode: host # kvscope serve listens on loopback
    command:
      - --config.file=/etc/prometheus/prometheus.yml
      - --enable-feature=exemplar-storage
      - --web.listen-address=127.0.0.1:9090
    volumes:
      - ./prometheus.yml:/etc/prometheus/prometheus.yml:ro
  grafana:
    image: grafana/grafana:12.2.0
    network_mode: host
    environment:
      GF_SERVER_HTTP_ADDR: 127.0.0.1
    volumes:
      - ./provisioning:/etc/grafana/provisioning:ro
      - ./json:/var/lib/grafana/dashboards/kvscope:ro
"""
MONITOR = f"""{MADE}\
# For the Prometheus operator: kvscope serve runs beside the engines of each node, behind this service.
apiVersion: v1
kind: Service
metadata:
  name: kvscope
  labels:
    app.kubernetes.io/name: kvscope
spec:
  clusterIP: None
  selector:
    app.kubernetes.io/name: kvscope
  ports:
    - name: metrics
      port: {PORT}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: kvscope
  labels:
    app.kubernetes.io/name: kvscope
spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: kvscope
  endpoints:
    - port: metrics
      path: {METRICS}
      interval: {OFTEN}
      honorLabels: true # pod, namespace and node are the engines', not those of kvscope
      scheme: https
      authorization:
        credentials:
          name: kvscope-token # the token of kvscope serve --token-file
          key: token
      tlsConfig:
        ca:
          secret:
            name: kvscope-tls # what signed the certificate of kvscope serve --tls-cert
            key: ca.crt
        serverName: kvscope
"""


def files(boards: tuple[Board, ...] = BOARDS) -> dict[str, str]:
    """All of them."""
    found = {f"json/{board.key}.json": rendered(board) for board in boards}
    return found | {
        "provisioning/dashboards/kvscope.yaml": PROVIDER,
        "provisioning/datasources/kvscope.yaml": SOURCE,
        "prometheus.yml": PROMETHEUS,
        "compose.yaml": COMPOSE,
        "kubernetes/configmaps.yaml": "---\n".join(map(_config_map, boards)),
        "kubernetes/servicemonitor.yaml": MONITOR,
    }


def _config_map(board: Board) -> str:
    """The label is the one that the sidecar of Grafana's Helm chart looks for; the annotation names the folder."""
    inside = "".join(f"    {line}\n" for line in rendered(board).splitlines())
    return f"""{MADE}\
apiVersion: v1
kind: ConfigMap
metadata:
  name: kvscope-dashboard-{board.key}
  labels:
    grafana_dashboard: "1"
  annotations:
    grafana_folder: {FOLDER}
data:
  kvscope-{board.key}.json: |
{inside}"""


def write(folder: Path) -> list[Path]:
    """Write them; returns where they are. InputError: the folder is no folder."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is no directory: name one that the files can be put in")
    for name, text in files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return [folder / name for name in files()]
