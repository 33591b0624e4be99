"""streamfeat: features that do not change when the input is shifted, turned, scaled, raised or spoken faster."""

__version__ = "0.1.0"
