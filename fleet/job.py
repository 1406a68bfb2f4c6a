"""The script for spark-submit, for example: spark-submit job.py summarize TRACES --out DATASET."""

import sys

from xray_fleet.__main__ import main

sys.exit(main())
