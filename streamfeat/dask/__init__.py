"""Features and fits through Dask (extra `dask`): on the cores of this machine, or on workers of your own scheduler.

with connect() as client:                       # or connect("tcp://host:8786"), whom you must trust: see `cluster`
    compute(client, fmap, blocks, finished)     # blocks of items; streamfeat featurize
    fit(RLS(), stored(Path("features")), labels, client=client)     # streamfeat fit
transform(fmap, X).compute()                    # a dask array of pictures, sounds or vectors
fit(RLS(), transform(fmap, X), y)               # RLS.fit on a dask array
"""

from streamfeat.dask.cluster import connect
from streamfeat.dask.features import compute, transform
from streamfeat.dask.sums import fit, stored

__all__ = ["compute", "connect", "fit", "stored", "transform"]
