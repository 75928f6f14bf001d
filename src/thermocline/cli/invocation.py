"""What every command starts with: its settings, its logs, its output, its options."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import typer

from thermocline import config
from thermocline import log as logs
from thermocline.cli.output import JsonOutput, Output, TextOutput
from thermocline.stack import Stack

if TYPE_CHECKING:
    from thermocline.config import Loaded, Settings

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Table = Annotated[str, typer.Argument(help="A ChronoTable, as readings or plant.readings.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show the log on stderr as well.")]


class Invocation:
    """One call of one command."""

    def __init__(self, *, json: bool = False, verbose: bool = False) -> None:
        self.out: Output = JsonOutput() if json else TextOutput()
        self.json = json
        self._verbose = verbose

    @cached_property
    def loaded(self) -> Loaded:
        """The settings with their origins; also sends the log to where they say."""
        loaded = config.load()
        logs.set_up(loaded.settings.home, loaded.settings.log.level, verbose=self._verbose)
        return loaded

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.loaded.settings

    @cached_property
    def stack(self) -> Stack:
        """The stack that these settings describe."""
        return Stack(self.settings)
