from typing import Any, Callable, Dict, List, Optional, Union

from . import bgv as bgv
from . import ckks as ckks
from . import infer as infer
from . import plan as plan
from . import search as search
from . import sense as sense

__all__ = [
    "DecodeError",
    "Error",
    "Refused",
    "Withheld",
    "__version__",
    "_wait",
    "bgv",
    "ckks",
    "infer",
    "parameter_sets",
    "plan",
    "search",
    "sense",
]

__version__: str

class Error(Exception): ...
class DecodeError(Error): ...

class Refused(Error):
    #: The server's word for why; of a half in this process, where it has one.
    reason: Optional[str]

class Withheld(Error): ...

def parameter_sets() -> List[Dict[str, Any]]: ...
def _wait(seconds: float, progress: Union[None, bool, Callable[[int, int], Any]] = None, panic: bool = False) -> None: ...
