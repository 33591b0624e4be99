"""Feature maps and learners as scikit-learn estimators: pipelines, searches, cross-validation. Extra `sklearn`.

Thin: the mathematics, and what a setting means, are those of `streamfeat.featuremap` and `streamfeat.learn`, which need
no scikit-learn.
"""

from streamfeat.errors import ConfigError

try:
    import sklearn  # noqa: F401 - asked for here once, in words
except ImportError as error:
    raise ConfigError("streamfeat.sklearn needs scikit-learn: pip install 'streamfeat[sklearn]'") from error

from streamfeat.sklearn.features import InvariantFeatures
from streamfeat.sklearn.mmif import MMIF
from streamfeat.sklearn.neighbours import KNNClassifier
from streamfeat.sklearn.orbitkernel import OrbitKernel
from streamfeat.sklearn.orbitsvm import OrbitSVM
from streamfeat.sklearn.rls import KernelRLSClassifier, KernelRLSRegressor, RLSClassifier, RLSRegressor
from streamfeat.sklearn.whitening import WithinOrbitWhitening

__all__ = [
    "MMIF",
    "InvariantFeatures",
    "KNNClassifier",
    "KernelRLSClassifier",
    "KernelRLSRegressor",
    "OrbitKernel",
    "OrbitSVM",
    "RLSClassifier",
    "RLSRegressor",
    "WithinOrbitWhitening",
]
