"""What must and must not be in the sdist and in the wheel: ``check_dist.py SDIST WHEEL``."""

import sys
import tarfile
import zipfile
from pathlib import Path

sdist, wheel = sys.argv[1:]
with tarfile.open(sdist) as archive:
    in_sdist = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
with zipfile.ZipFile(wheel) as archive:
    in_wheel = set(archive.namelist())

sources = [path for path in Path("osvm").rglob("*") if path.is_file()]
package = {path.as_posix() for path in sources if path.suffix in (".py", ".pyi", ".pxd", ".h")}
package.add("osvm/py.typed")
compiled = {path.with_suffix("").as_posix() for path in sources if path.suffix == ".pyx"}

problems = []
for name in sorted(package - in_wheel):
    problems.append(f"the wheel lacks {name}")
for name in sorted(compiled | {"osvm/_cyutility"}):
    if not any(n.startswith(name + ".") and n.endswith((".so", ".pyd")) for n in in_wheel):
        problems.append(f"the wheel lacks the compiled module {name}")
for name in sorted(in_wheel):
    if name.endswith((".c", ".cpp")):
        problems.append(f"the wheel has generated C: {name}")
    elif not name.startswith("osvm/") and ".dist-info/" not in name:
        problems.append(f"the wheel has a stranger: {name}")
    elif "test" in Path(name).parts[0]:
        problems.append(f"the wheel has tests: {name}")
needed = package | {f"{name}.pyx" for name in compiled}
needed |= {"pyproject.toml", "setup.py", "README.md", "LICENSE"}
for name in sorted(needed - in_sdist):
    problems.append(f"the sdist lacks {name}")
for name in sorted(in_sdist):
    if name.endswith((".c", ".cpp", ".so", ".pyd")):
        problems.append(f"the sdist has a built file: {name}")

print("\n".join(problems) or f"{len(in_sdist)} files in the sdist, {len(in_wheel)} in the wheel")
sys.exit(bool(problems))
