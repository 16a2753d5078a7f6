"""The commands for pipelines: `pipeline init`, `pipeline check` and `pipeline run`."""

from pathlib import Path
from typing import Annotated

import typer

from pyromq.cli import options
from pyromq.cli.options import examples

pipeline = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Pipelines on Spark, from a topic through SQL to topics and tables: begin, check, run.",
)


SPARK = "Where Spark runs"

Pipeline = Annotated[
    Path,
    typer.Argument(
        metavar="DIR",
        help="The pipeline: a folder with spark-pipeline.yml or pipeline.yml in it, or such a file.",
        show_default=False,
    ),
]
NameServer = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--namesrv",
        metavar="HOST:PORT",
        envvar="NAMESRV_ADDR",
        help="Name servers, instead of those in the file.",
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Spark's master, such as spark://host:7077 (default local[*]).",
        rich_help_panel=SPARK,
    ),
]
Remote = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="A Spark Connect server, such as sc://host:15002.", rich_help_panel=SPARK
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="KEY=VALUE",
        help="A setting of Spark, above those in the file; may be repeated.",
        rich_help_panel=SPARK,
    ),
]


@pipeline.command(epilog=examples("pyromq pipeline init orders", "pyromq pipeline init orders/pipeline.yml"))
def init(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="A folder for Spark Declarative Pipelines; or one file, if it ends in .yml.",
            show_default=False,
        ),
    ],
    *,
    as_json: options.Json = False,
) -> None:
    """Write a first pipeline, from a topic through SQL to a topic, to begin with."""
    from pyromq.cli.spark.pipeline import run_init

    run_init(path, is_json=as_json)


@pipeline.command(epilog=examples("pyromq pipeline check orders", "pyromq pipeline check orders.yml --json"))
def check(
    path: Pipeline,
    *,
    name_server: NameServer = None,
    master: Master = None,
    remote: Remote = None,
    settings: Settings = None,
    as_json: options.Json = False,
) -> None:
    """Say what is wrong with a pipeline: file, options, topics, SQL; each with its place. Nothing is changed.

    Status 0: it can run. 1: it cannot, and all that was found is told.
    """
    from pyromq.cli.spark.pipeline import SparkChoice, run_check

    choice = SparkChoice(master=master, remote=remote, settings=tuple(settings or ()))
    if not run_check(path, choice, name_server=name_server, is_json=as_json):
        raise typer.Exit(1)


@pipeline.command(
    epilog=examples(
        "pyromq pipeline run orders",
        "pyromq pipeline run orders.yml --once --create-topics",
        "pyromq pipeline run orders.yml --master spark://host:7077 --conf spark.executor.memory=2g",
        "pyromq pipeline run orders --remote sc://host:15002",
    )
)
def run(
    path: Pipeline,
    *,
    name_server: NameServer = None,
    master: Master = None,
    remote: Remote = None,
    settings: Settings = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when all that is there now is done (default: go on).")
    ] = False,
    create_topics: Annotated[
        bool, typer.Option("--create-topics", help="Make the topics of sinks that are not there.")
    ] = False,
    full_refresh: Annotated[
        bool, typer.Option("--full-refresh", help="Make all tables anew (declarative pipelines only).")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Run a pipeline and show its rows, rate and lag. Ctrl-C and SIGTERM end it after the batch under way.

    A declarative pipeline always ends when all that is there now is done.
    """
    from pyromq.cli.spark.pipeline import PipelineOrder, SparkChoice, run_pipeline

    running = PipelineOrder(
        spark=SparkChoice(master=master, remote=remote, settings=tuple(settings or ())),
        name_server=name_server,
        is_once=once,
        creates_topics=create_topics,
        is_full_refresh=full_refresh,
        is_json=as_json,
    )
    run_pipeline(path, running)
