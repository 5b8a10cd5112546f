"""Makes matplotlib ready for a sandbox, in images that have it.

Figures that a program left open are saved at its end as figure-1.png, figure-2.png, ... in /workspace, where they become
artifacts. matplotlib closes all figures in an exit handler of its own, and handlers run in reverse order: ours must be
registered just after that one. And the list of fonts, which takes seconds to make and has nowhere to be kept, is taken
from the image. So the imports of the modules that do this are watched; a program that draws nothing pays for one entry in
sys.meta_path. A figure that the program itself has saved in /workspace is not saved again. Nothing here can fail a
program: what goes wrong with a figure is one line on stderr. Forked children save nothing, since their figures are copies
of their parent's.
"""

import os
import sys

_FOLDER = "/workspace"
_FONTS = "/usr/share/silk/matplotlib"
_MOST = 100  # figures: a loop that opens them by mistake does not fill the workspace
_OWNER = os.getpid()
_saved = ()  # figures that the program has saved itself; a weak set once there can be any


class _Finder:
    """Finds the watched modules as everybody else does, and hooks their loaders."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        hooks = _HOOKS.pop(name, None)
        if hooks is None:
            return None
        if not _HOOKS:
            sys.meta_path.remove(_Finder)
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not _Finder else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, *hooks)
                return spec
        return None


class _Loader:
    def __init__(self, loader, before, after):
        self._loader, self._before, self._after = loader, before, after

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._before()
        self._loader.exec_module(module)
        self._after()


def _nothing():
    pass


def _watch_saving():
    try:
        import functools
        import weakref

        figure = sys.modules["matplotlib.figure"].Figure
        save, saved = figure.savefig, weakref.WeakSet()
        code = save.__code__
    except Exception:
        return

    @functools.wraps(save)
    def savefig(self, fname, *args, **kwargs):
        result = save(self, fname, *args, **kwargs)
        try:
            if os.path.realpath(fname).startswith(_FOLDER + "/"):
                saved.add(self)
        except Exception:
            pass  # an open file or a buffer, which may not be an artifact
        return result

    # A warning names the innermost line that is not in a file of matplotlib's: the program's, not one of these. Lines are
    # counted from the decorator, so the call of save shows as the line where matplotlib defines it.
    savefig.__code__ = savefig.__code__.replace(co_filename=code.co_filename, co_firstlineno=code.co_firstlineno - 2)
    global _saved
    figure.savefig, _saved = savefig, saved


def _register():
    import atexit

    atexit.register(_save_open_figures)


def _bring_fonts():
    try:
        import shutil

        cache = sys.modules["matplotlib"].get_cachedir()
        for name in os.listdir(_FONTS):
            if not os.path.lexists(os.path.join(cache, name)):
                shutil.copyfile(os.path.join(_FONTS, name), os.path.join(cache, name))
    except Exception:
        pass  # matplotlib makes the list itself


def _save_open_figures():
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or os.getpid() != _OWNER:
        return
    try:
        numbers = [number for number in pyplot.get_fignums() if pyplot.figure(number) not in _saved]
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


_HOOKS = {  # module: what to do before and after it is executed
    "matplotlib.figure": (_nothing, _watch_saving),
    "matplotlib.font_manager": (_bring_fonts, _nothing),
    "matplotlib._pylab_helpers": (_nothing, _register),
}
sys.meta_path.insert(0, _Finder)
