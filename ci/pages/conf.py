"""Settings of Sphinx for the documentation site; bash ci/docs.sh builds it."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "backends")]

import tapegrad  # noqa: E402

project = "tapegrad"
copyright = "the tapegrad authors"
release = tapegrad.__version__
version = release

extensions = ["myst_parser", "sphinx_gallery.gen_gallery"]
exclude_patterns = ["files/**"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
# A docstring may name a type that has no entry.
suppress_warnings = ["config.cache", "myst.header"]
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 80
add_module_names = False

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "docs" / "gallery"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "abort_on_example_error": True,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "tapegrad"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "tapegrad"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_persistent": [],
    "navigation_depth": 2,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "navbar_end": ["search-button", "theme-switcher"],
}
html_sidebars = {"index": []}
