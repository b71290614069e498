"""The forms that browsers send: their fields, from a body whose size is bounded."""

from dataclasses import dataclass
from http import HTTPStatus
from io import BytesIO
from typing import Any, Final

from werkzeug.datastructures import FileStorage, ImmutableMultiDict
from werkzeug.exceptions import HTTPException
from werkzeug.formparser import FormDataParser
from werkzeug.http import parse_options_header

from tallygate.server.asking.ask_error import AskError
from tallygate.server.asking.ask_request import MAX_BODY_BYTES

_MULTIPART: Final = "multipart/form-data"
_URL_ENCODED: Final = "application/x-www-form-urlencoded"
_MAX_FIELDS: Final = 20
_MAX_URL_ENCODED: Final = 1 << 16  # bytes; each field of such a body takes a hundred times its bytes
_MAX_NAME: Final = 253  # characters of a namespace, and some more than it has


@dataclass(frozen=True, slots=True)
class AskForm:
    """The form of an ask: the objects as text, the namespace of those that name none, and whether JSON is answered."""

    manifest: str
    namespace: str
    is_json: bool = False


@dataclass(frozen=True, slots=True)
class SignInForm:
    """The form to sign in: a token, and the page that the browser wanted."""

    token: str
    target: str


def read_ask_form(body: bytes, content_type: str) -> AskForm:
    """Return the form of an ask; a file that was chosen counts, else the text.

    Raises:
        AskError: with 400 or 415 if the body is no form; with 413 if it has too many fields.
    """
    fields, files = _read_fields(body, content_type, _MULTIPART)
    manifest = fields.get("manifest", "")
    file = files.get("file")
    if file is not None and (content := file.stream.read()):
        try:
            manifest = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise AskError(HTTPStatus.BAD_REQUEST, "the file is not UTF-8 text") from None
    return AskForm(manifest, fields.get("namespace", "").strip()[:_MAX_NAME], fields.get("o") == "json")


def read_sign_in_form(body: bytes, content_type: str) -> SignInForm:
    """Return the form to sign in.

    Raises:
        AskError: as `read_ask_form`.
    """
    if len(body) > _MAX_URL_ENCODED:
        raise AskError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the form has more than {_MAX_URL_ENCODED} bytes")
    fields, _ = _read_fields(body, content_type, _URL_ENCODED)
    return SignInForm(fields.get("token", "").strip(), fields.get("target", ""))


def _read_fields(
    body: bytes, content_type: str, expected_type: str
) -> tuple[ImmutableMultiDict[str, str], ImmutableMultiDict[str, FileStorage]]:
    mimetype, options = parse_options_header(content_type)
    if mimetype != expected_type:
        raise AskError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"this address takes the form of its page, as {expected_type}"
        )
    parser = FormDataParser(
        stream_factory=_open_memory,
        max_form_memory_size=MAX_BODY_BYTES,
        max_content_length=MAX_BODY_BYTES,
        max_form_parts=_MAX_FIELDS,
        silent=False,
    )
    try:
        _, fields, files = parser.parse(BytesIO(body), mimetype, len(body), options)
    except HTTPException as error:
        raise AskError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the form has more than {_MAX_FIELDS} fields") from error
    except ValueError as error:
        raise AskError(HTTPStatus.BAD_REQUEST, "the body is no form that a browser sends") from error
    return ImmutableMultiDict(fields), ImmutableMultiDict(files)


def _open_memory(*_: Any, **__: Any) -> BytesIO:
    """Return where a file of a form is kept: no file of this host."""
    return BytesIO()
