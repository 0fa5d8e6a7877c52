"""Import every module of an installed osvm, where nothing but numpy and scipy is there."""

import importlib
import pkgutil
import sys
from pathlib import Path

import osvm

assert "site-packages" in osvm.__file__, osvm.__file__
optional = {"sklearn", "dask", "distributed", "matplotlib", "tqdm", "pandas"}
assert not optional & set(sys.modules), optional & set(sys.modules)
names = [m.name for m in pkgutil.walk_packages(osvm.__path__, "osvm.")]
for name in names:
    if name == "osvm.__main__":
        continue
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        # a module about an optional library may need it, and must name it
        if error.name not in optional and not optional & set(str(error).replace("'", " ").split()):
            raise
        print(f"{name} asks for {error.name}")
assert (Path(osvm.get_include()) / "../_c/dispatch.h").exists()
print(f"{len(names)} modules of osvm {osvm.__version__} import")
