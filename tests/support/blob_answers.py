"""How a faulty operator answers a request for a bootstrap blob."""

from bigfleet.demo.session_peer import BlobAnswer
from bigfleet.v1alpha1 import shard_pb2 as pb


def no_blob(_request: pb.BootstrapRequest) -> None:
    """An operator that hangs: no answer."""


def blob_error(text: str) -> BlobAnswer:
    """An operator with a broken template: an error."""

    def answer(request: pb.BootstrapRequest) -> pb.BootstrapBlobResponse:
        return pb.BootstrapBlobResponse(request_id=request.request_id, error=text)

    return answer
