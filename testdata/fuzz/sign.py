"""Signs the fuzzer's requests as any AWS client does, with the reference implementation of Signature Version 4."""

import os

import requests
import schemathesis
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

signer = SigV4Auth(Credentials(os.environ["FUZZ_KEY_ID"], os.environ["FUZZ_SECRET"]), "execute-api", os.environ["FUZZ_REGION"])


class Signed(requests.auth.AuthBase):
    def __call__(self, request):
        signed = AWSRequest(method=request.method, url=request.url, data=request.body or b"")
        # What a client does not sign a proxy may change; the host and the date are what counts, the body is part of every signature.
        signed.headers["Host"] = requests.utils.urlparse(request.url).netloc
        signer.add_auth(signed)
        request.headers["Authorization"] = signed.headers["Authorization"]
        request.headers["X-Amz-Date"] = signed.headers["X-Amz-Date"]
        return request


schemathesis.auth.set_from_requests(Signed())
