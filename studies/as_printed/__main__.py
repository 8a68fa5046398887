"""`python -m studies.as_printed`."""

import sys

from studies.as_printed import main

sys.exit(main())
