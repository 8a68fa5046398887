"""Why a recalibrator was chosen, or why none was."""
