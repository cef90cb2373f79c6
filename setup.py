"""The compiled part; all the rest stands in setup.cfg."""

from Cython.Build import cythonize
from setuptools import Extension, setup

extensions = cythonize([Extension("rocketha._compiled", ["src/rocketha/_compiled.pyx"])], build_dir="build/cython")
for extension in extensions:
    extension.optional = True  # where there is no C compiler, rocketha goes without
setup(ext_modules=extensions)
