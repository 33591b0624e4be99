"""`python -m streamfeat` is the command `streamfeat`."""

from streamfeat.cli import main

main()
