"""Every function that oxidax has is in a recorded case, or an exception with a reason."""

import unittest

import unrecorded


class Unrecorded(unittest.TestCase):
    def test_functions_are_recorded(self):
        self.assertEqual(unrecorded.unrecorded(), [])

    def test_a_function_that_no_module_uses_is_found(self):
        used = unrecorded.used_names()
        self.assertIn("bitwise_count", used)
        self.assertNotIn("no_such_function", used)

    def test_missing_cases_and_stale_exceptions_are_found(self):
        used, excepted = unrecorded.used_names, unrecorded.exceptions
        self.addCleanup(setattr, unrecorded, "used_names", used)
        self.addCleanup(setattr, unrecorded, "exceptions", excepted)
        unrecorded.used_names = lambda: used() - {"bitwise_count"} | {"random_bcoo"}
        more = excepted()
        more["jax.numpy"].add("no_such_function")
        unrecorded.exceptions = lambda: more
        self.assertEqual(
            unrecorded.unrecorded(),
            [
                "jax.numpy.bitwise_count: no module of the recorder uses it",
                "jax.experimental.sparse.random_bcoo: an exception, but the recorder uses it",
                "jax.numpy.no_such_function: an exception, but not a name that is there",
            ],
        )


if __name__ == "__main__":
    unittest.main()
