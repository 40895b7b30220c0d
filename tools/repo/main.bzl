"""Labels of this repository for the BUILD files of the repositories that are made for it."""

def main_label(label):
    """The label //PACKAGE:NAME as other repositories write it, in this version of Bazel.

    Args:
      label: a label of the main repository, such as //tools:never
    """
    text = str(Label(label))
    return text if text.startswith("@") else "@glint" + text
