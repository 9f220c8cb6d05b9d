"""What every test shares: how long Hypothesis may look."""

import os

from hypothesis import HealthCheck, settings

# No deadline: a busy machine is not a defect. No database in CI: nothing there outlives the run.
settings.register_profile("default", deadline=None, max_examples=100)
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=200,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci" if os.environ.get("CI") else "default")
