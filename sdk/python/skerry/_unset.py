"""What was not given, where None means something."""


class Unset:
    def __repr__(self) -> str:
        return "UNSET"


UNSET = Unset()
