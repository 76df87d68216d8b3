from bench import kernel


def test_the_kernel_does_the_work_that_the_reference_was_timed_with() -> None:
    assert kernel.work() == kernel.EXPECTED
