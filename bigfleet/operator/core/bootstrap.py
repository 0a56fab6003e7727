"""Renders bootstrap blobs: a stub, or the template of the installation.

Why: a blob holds join credentials of this cluster, so only the operator makes it.
Must never: raise for one request, make a call, or put what it rendered into a log or an error.
Rules: `operator#bootstrap`; ADR-0011.
"""

from dataclasses import dataclass
from typing import Final, Protocol

from bigfleet.model.frames import BlobAnswer, BlobRequest
from bigfleet.operator.core.template.errors import RenderError
from bigfleet.operator.core.template.evaluate import render
from bigfleet.operator.core.template.parser import parse
from bigfleet.operator.core.template.values import TemplateContext, TemplateRequirement

STUB_TTL_S: Final = 600


class Renderer(Protocol):
    """Answers requests for blobs."""

    def answer(self, request: BlobRequest) -> BlobAnswer:
        """Return the blob, or why there is none."""


@dataclass(frozen=True, slots=True)
class StubRenderer:
    """A blob of two lines that boots nothing; for trials and tests."""

    cluster: str
    ttl_s: int = STUB_TTL_S

    def answer(self, request: BlobRequest) -> BlobAnswer:
        text = f"#cloud-config\n# bigfleet stub bootstrap for {self.cluster}\n"
        return BlobAnswer(request.request_id, text.encode(), self.ttl_s)


class TemplateRenderer:
    """Renders a template that is parsed once."""

    def __init__(self, cluster: str, source: str, ttl_s: int = 0) -> None:
        self._cluster, self._ttl_s = cluster, ttl_s
        self._nodes = parse(source)

    def answer(self, request: BlobRequest) -> BlobAnswer:
        context = TemplateContext(
            self._cluster,
            tuple(TemplateRequirement(*requirement) for requirement in request.requirements),
            request.machine_id,
        )
        try:
            text = render(self._nodes, context)
        except RenderError as error:
            return BlobAnswer(request.request_id, error=f"bootstrap template: {error}")
        return BlobAnswer(request.request_id, text.encode(), self._ttl_s)

    def trial_problems(self) -> list[str]:
        """Render with no requirement and with one; return the errors."""
        one = ("node.kubernetes.io/instance-type", "In", ("m5.large",))
        trials = (BlobRequest("trial"), BlobRequest("trial", (one,), "machine-0"))
        return [problem for trial in trials if (problem := self.answer(trial).error)]
