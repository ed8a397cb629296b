"""Writing in place in whichever order: for tensors that no lazy graph gives memory to."""

from composites.in_place import InPlace


def copy_each(in_place: InPlace) -> None:
    """Copy the new values. torch.compile can trace this."""
    for written in in_place.written:
        for target, value in zip(written.targets, written.values, strict=True):
            target.copy_(value)
