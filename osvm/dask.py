"""Past one machine with dask: the public address of `osvm.distributed.dask`.

>>> import osvm.dask
>>> model = osvm.dask.fit(osvm.LinearClassifier(), dX, dy)          # doctest: +SKIP
>>> osvm.dask.predict(model, dX_test).compute()                     # doctest: +SKIP
"""

from osvm.distributed.dask import *  # noqa: F403
from osvm.distributed.dask import __all__  # noqa: F401
