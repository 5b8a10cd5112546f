"""Saves matplotlib figures that a program left open as figure-1.png, figure-2.png, ... in /workspace, where they become
artifacts. Installed as /usr/lib/python3/dist-packages/sitecustomize.py in images with matplotlib.

matplotlib closes all figures in an exit handler of its own, and handlers run in reverse order: ours must be registered
just after that one, so the import of the module that registers it is watched. A program that draws nothing pays for one
entry in sys.meta_path. Nothing here can fail a program: what goes wrong is one line on stderr. Forked children save
nothing, since their figures are copies of their parent's.
"""

import os
import sys

_FOLDER = "/workspace"
_MOST = 100  # figures: a loop that opens them by mistake does not fill the workspace
_OWNER = os.getpid()


class _Finder:
    """Finds matplotlib._pylab_helpers as everybody else does, and hooks its loader."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "matplotlib._pylab_helpers":
            return None
        sys.meta_path.remove(_Finder)
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader:
    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        import atexit

        atexit.register(_save_open_figures)


def _save_open_figures():
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or os.getpid() != _OWNER:
        return
    try:
        numbers = pyplot.get_fignums()
        name = 0
        for number in numbers[:_MOST]:
            name += 1
            while os.path.lexists(os.path.join(_FOLDER, f"figure-{name}.png")):
                name += 1
            pyplot.figure(number).savefig(os.path.join(_FOLDER, f"figure-{name}.png"))
        if len(numbers) > _MOST:
            print(f"{len(numbers) - _MOST} open figures were not saved", file=sys.stderr)
    except Exception as error:
        print(f"an open figure was not saved: {error}", file=sys.stderr)


sys.meta_path.insert(0, _Finder)
