# cmake --install, and the package that find_package(dragonn) finds.
