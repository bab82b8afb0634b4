# Manual pages and completions, made by the programs themselves from what their command lines declare
# (core/program_pages.h), at every build of theirs: build/<preset>/pages.
set(PAGES "${PROJECT_BINARY_DIR}/pages")
file(MAKE_DIRECTORY "${PAGES}/man1" "${PAGES}/man5" "${PAGES}/bash" "${PAGES}/zsh")
set(PAGE_FILES "")

# dragonn_page(PROGRAM KIND FILE): what `PROGRAM --generate KIND` prints.
function(dragonn_page PROGRAM KIND FILE)
  add_custom_command(OUTPUT "${PAGES}/${FILE}" COMMAND ${PROGRAM} --generate ${KIND} > "${PAGES}/${FILE}"
    DEPENDS ${PROGRAM} VERBATIM)
  set(PAGE_FILES ${PAGE_FILES} "${PAGES}/${FILE}" PARENT_SCOPE)
endfunction()

foreach(PROGRAM IN LISTS DRAGONN_PROGRAMS)
  dragonn_page(${PROGRAM} man man1/${PROGRAM}.1)
  dragonn_page(${PROGRAM} bash bash/${PROGRAM})
  dragonn_page(${PROGRAM} zsh zsh/_${PROGRAM})
endforeach()
dragonn_page(dragonn-train config man5/dragonn-train.toml.5)
add_custom_target(dragonn_pages ALL DEPENDS ${PAGE_FILES})

install(DIRECTORY "${PAGES}/man1" "${PAGES}/man5" DESTINATION "${CMAKE_INSTALL_MANDIR}" COMPONENT runtime)
install(DIRECTORY "${PAGES}/bash/" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" COMPONENT runtime)
install(DIRECTORY "${PAGES}/zsh/" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions" COMPONENT runtime)
