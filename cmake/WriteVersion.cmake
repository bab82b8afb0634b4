# Writes the version header from `git describe`; run at every build (cmake -P), touches the header only on a change.
# In: SOURCE_DIR, TEMPLATE, OUTPUT, FALLBACK (the version where the sources are not in a git repository of their own).
set(DRAGONN_VERSION_TEXT "")
find_program(GIT_EXECUTABLE git)
if(GIT_EXECUTABLE AND EXISTS "${SOURCE_DIR}/.git")
  execute_process(COMMAND "${GIT_EXECUTABLE}" describe --tags --match "v[0-9]*" --always --dirty
    WORKING_DIRECTORY "${SOURCE_DIR}" OUTPUT_VARIABLE DRAGONN_VERSION_TEXT
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  # Without a tag git gives a bare commit: say of which version.
  if(DRAGONN_VERSION_TEXT MATCHES "^[0-9a-f]+(-dirty)?$")
    set(DRAGONN_VERSION_TEXT "${FALLBACK}-g${DRAGONN_VERSION_TEXT}")
  endif()
endif()
if(NOT DRAGONN_VERSION_TEXT)
  set(DRAGONN_VERSION_TEXT "${FALLBACK}")
endif()
configure_file("${TEMPLATE}" "${OUTPUT}" @ONLY)
