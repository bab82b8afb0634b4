// SPDX-License-Identifier: MIT
#include "core/program_pages.h"

#include <cctype>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/program.h"

namespace dragonn {
namespace {

/// The value of an option, taken apart.
struct ValueText {
  std::string name;                // "DIR"
  std::string limits;              // "INT in [1 - 1024]"
  std::vector<std::string> words;  // "cpu", "cuda"; also "auto" of "auto|DIR"
  bool is_file = false;
  bool is_folder = false;
};

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// Returns whether a word stands for itself, as names of values in capitals do not.
bool is_literal(const std::string& word) {
  return !word.empty() && std::ranges::all_of(word, [](unsigned char c) { return std::islower(c) != 0; });
}

ValueText value_of(const OptionText& option) {
  ValueText value;
  if (!option.takes_value && !option.is_positional) return value;
  const std::string& text = option.value;
  const std::size_t colon = std::min(text.find(':'), text.size());
  value.name = text.substr(0, colon);
  value.limits = text.substr(std::min(colon + 1, text.size()));
  if (value.limits.size() > 2 && value.limits.front() == '{') {
    value.words = split(std::string_view(value.limits).substr(1, value.limits.size() - 2), ',');
    value.name = fmt::format("{}", fmt::join(value.words, "|"));
    value.limits.clear();
  }
  for (const std::string& word : split(value.name, '|')) {
    if (is_literal(word) && !std::ranges::count(value.words, word)) value.words.push_back(word);
  }
  const std::string& kind = option.is_positional ? option.names.front() : value.name;
  value.is_folder = kind.find("DIR") != std::string::npos;
  value.is_file = kind.find("FILE") != std::string::npos || kind.find("CONFIG") != std::string::npos;
  return value;
}

/// Returns a text on one line: lines of help texts are broken by hand.
std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

/// Returns a text with each of `special` behind a backslash.
std::string escaped(std::string_view text, std::string_view special) {
  std::string result;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

// ---------------------------------------------------------------- manual pages

std::string bold(std::string_view text) {
  return fmt::format("\\fB{}\\fR", roff(text));
}

std::string italic(std::string_view text) {
  return fmt::format("\\fI{}\\fR", roff(text));
}

std::string man_option(const OptionText& option) {
  const ValueText value = value_of(option);
  std::string text = fmt::format(".TP\n{}", bold(fmt::format("{}", fmt::join(option.names, ", "))));
  if (!option.is_positional && !value.name.empty()) text += fmt::format(" {}", italic(value.name));
  text += fmt::format("\n{}", roff(one_line(option.help)));
  if (!value.limits.empty()) text += roff(fmt::format(" ({})", value.limits));
  if (!option.default_value.empty()) text += roff(fmt::format(" [default: {}]", option.default_value));
  return text + "\n";
}

/// Returns the options by group, in the order of first appearance, each under a heading if there are several.
std::string man_options(const std::vector<OptionText>& options) {
  std::vector<std::string> groups;
  for (const OptionText& option : options) {
    if (!std::ranges::count(groups, option.group)) groups.push_back(option.group);
  }
  std::string text;
  for (const std::string& group : groups) {
    if (groups.size() > 1) text += fmt::format(".SS \"{}\"\n", roff(group));
    for (const OptionText& option : options) {
      if (option.group == group) text += man_option(option);
    }
  }
  return text;
}

std::string man_footer(std::string footer, const char* heading) {
  constexpr std::string_view kExamples = "Examples:\n";
  while (footer.starts_with('\n')) footer.erase(0, 1);
  if (footer.starts_with(kExamples)) footer.erase(0, kExamples.size());
  if (footer.empty()) return "";
  std::string text = fmt::format("{}\n.nf\n", heading);
  for (const std::string& line : split(footer, '\n')) text += (line.empty() ? ".sp" : roff(line)) + "\n";
  return text + ".fi\n";
}

std::string synopsis(const ProgramText& program) {
  std::string text = bold(program.name);
  if (!program.commands.empty()) text += fmt::format(" {}", italic("SUBCOMMAND"));
  text += fmt::format(" [{}]...", italic("OPTION"));
  for (const OptionText& option : program.options) {
    if (!option.is_positional) continue;
    text += fmt::format(" [{}]{}", italic(option.names.front()), option.is_repeatable ? "..." : "");
  }
  return text;
}

// ---------------------------------------------------------------- completions

/// Returns the option's words, those that the program gives first.
std::vector<std::string> words_of(const OptionText& option, const ValueText& value, const WordLists& lists) {
  for (const std::string& name : option.names) {
    if (const auto found = lists.find(name); found != lists.end()) return found->second;
  }
  return value.words;
}

/// The words of an option whose value is KEY=VALUE: the keys, each with its "=", and keys with a value. Without keys
/// the value is another.
struct KeyWords {
  explicit KeyWords(const std::vector<std::string>& words) {
    for (const std::string& word : words) (word.ends_with('=') ? keys : values).push_back(word);
  }
  std::vector<std::string> keys, values;
};

std::string function_name(std::string name) {
  std::ranges::replace(name, '-', '_');
  return "_" + name;
}

/// Returns the program that a subcommand is.
std::string program_of(const ProgramText& program, const ProgramText& command) {
  return program.name + "-" + command.name;
}

std::string bash_words(const std::vector<std::string>& words) {
  return fmt::format("compgen -W '{}' -- \"$cur\"", fmt::join(words, " "));
}

/// Returns the bash command whose lines complete the value of an option; empty for a value that nothing completes.
std::string bash_value(const OptionText& option, const WordLists& lists) {
  const ValueText value = value_of(option);
  const std::vector<std::string> words = words_of(option, value, lists);
  if (const KeyWords of_key(words); !of_key.keys.empty()) {
    return fmt::format("if [[ $cur == *=* ]]; then {}; else {}; fi", bash_words(of_key.values),
                       bash_words(of_key.keys));
  }
  std::vector<std::string> commands;
  if (!words.empty()) commands.push_back(bash_words(words));
  if (value.is_file) commands.emplace_back("compgen -f -- \"$cur\"");
  if (value.is_folder) commands.emplace_back("compgen -d -- \"$cur\"");
  return fmt::format("{}", fmt::join(commands, "; "));
}

/// Returns the body that completes options and positionals of a program or a subcommand.
std::string bash_body(const ProgramText& program, const WordLists& lists) {
  std::string body = "  case $prev in\n";
  std::vector<std::string> names;
  std::string positional;
  for (const OptionText& option : program.options) {
    const std::string value = option.takes_value || option.is_positional ? bash_value(option, lists) : "";
    if (option.is_positional) {
      if (!value.empty()) positional = value;
      continue;
    }
    names.insert(names.end(), option.names.begin(), option.names.end());
    if (!option.takes_value) continue;
    body += fmt::format("    {})\n      {}\n      return ;;\n", fmt::join(option.names, " | "),
                        value.empty() ? ":" : value);
  }
  for (const ProgramText& command : program.commands) names.push_back(command.name);
  body += "  esac\n";
  if (!positional.empty()) body += fmt::format("  [[ $cur == -* ]] || {{ {}; return; }}\n", positional);
  return body + fmt::format("  {}\n", bash_words(names));
}

std::string zsh_text(const std::string& text) {
  std::string result;
  for (const char c : escaped(one_line(text), "[]:\\")) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result;
}

/// Returns the action by which zsh completes the value of an option, and adds functions that it needs to `functions`:
/// an action of several commands, or with quotes, is a function of its own.
std::string zsh_action(const ProgramText& program, const OptionText& option, const WordLists& lists,
                       std::string& functions) {
  const ValueText value = value_of(option);
  const std::vector<std::string> words = words_of(option, value, lists);
  const auto call = [&](const std::string& body) {
    const std::string name = function_name(program.name) + "_" + option.names.front().substr(2);
    functions += fmt::format("{}() {{\n  {}\n}}\n\n", name, body);
    return name;
  };
  if (const KeyWords of_key(words); !of_key.keys.empty()) {
    return call(fmt::format("if [[ $PREFIX == *=* ]]; then\n    compadd -- {}\n  else\n    compadd -S '' -- {}\n  fi",
                            fmt::join(of_key.values, " "), fmt::join(of_key.keys, " ")));
  }
  if (value.is_folder && !words.empty())
    return call(fmt::format("_alternative 'w:word:({})' 'd:folder:_files -/'", fmt::join(words, " ")));
  if (!words.empty()) return fmt::format("({})", fmt::join(words, " "));
  if (value.is_folder) return "_files -/";
  return value.is_file ? "_files" : " ";
}

/// Returns the specifications of _arguments, a line each.
std::string zsh_arguments(const ProgramText& program, const WordLists& lists, std::string& functions) {
  std::string lines;
  int position = 0;
  for (const OptionText& option : program.options) {
    const bool has_value = option.takes_value || option.is_positional;
    const std::string action = has_value ? zsh_action(program, option, lists, functions) : "";
    const std::string value = fmt::format(":{}:{}", zsh_text(value_of(option).name), action);
    if (option.is_positional) {
      lines += fmt::format(" \\\n    '{}:{}:{}'", option.is_repeatable ? "*" : std::to_string(++position),
                           option.names.front(), action);
      continue;
    }
    for (const std::string& name : option.names) {
      lines += fmt::format(" \\\n    '{}{}[{}]{}'", option.is_repeatable ? "*" : "", name, zsh_text(option.help),
                           has_value ? value : "");
    }
  }
  return lines;
}

}  // namespace

std::string roff(std::string_view text) {
  std::string result;
  for (const char c : text) result += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  if (result.starts_with('.') || result.starts_with('\'')) result.insert(0, "\\&");
  return result;
}

std::string man_page(const ProgramText& program, const std::vector<std::string>& related) {
  std::string title = program.name;
  std::ranges::transform(title, title.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string text = fmt::format(
      ".\\\" Generated from the program's command line.\n.TH {} 1 \"\" \"dragonn {}\" \"User Commands\"\n"
      ".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}\n.SH OPTIONS\n{}",
      roff(title), roff(version()), roff(program.name), roff(program.summary), synopsis(program),
      man_options(program.options));
  if (!program.commands.empty()) text += ".SH SUBCOMMANDS\n";
  for (const ProgramText& command : program.commands) {
    text += fmt::format(".SS \"{} {}\"\n{}.\n", roff(program.name), roff(command.name), roff(command.summary));
    if (command.is_program) {
      text += fmt::format("It takes the arguments of {}(1).\n", bold(program_of(program, command)));
      continue;
    }
    text += man_options(command.options) + man_footer(command.footer, ".PP\nExamples:");
  }
  text += man_footer(program.footer, ".SH EXAMPLES AND NOTES");
  text += ".SH SEE ALSO\n" + roff(fmt::format("{}", fmt::join(related, ", "))) + "\n";
  return text;
}

std::string bash_completion(const ProgramText& program, const WordLists& words) {
  const std::string function = function_name(program.name);
  std::string text = fmt::format("# bash completion of {}; generated from its command line.\n\n", program.name);
  for (const ProgramText& command : program.commands) {
    if (command.is_program) continue;
    text += fmt::format("{}__{}() {{\n{}}}\n\n", function, command.name, bash_body(command, words));
  }
  text += fmt::format("{}__program() {{\n", function);
  if (!program.commands.empty()) {
    text += "  local word\n  for word in \"${words[@]:1:cword-1}\"; do\n    case $word in\n";
    for (const ProgramText& command : program.commands) {
      if (!command.is_program) {
        text += fmt::format("      {}) {}__{}; return ;;\n", command.name, function, command.name);
        continue;
      }
      const std::string called = program_of(program, command), completes = function_name(called) + "__program";
      text += fmt::format(
          "      {0})\n        declare -F {1} >/dev/null || _completion_loader {2}\n        {1}; return ;;\n",
          command.name, completes, called);
    }
    text += "    esac\n  done\n";
  }
  text += bash_body(program, words) + "}\n\n";
  // The shell replaces what is behind the last '=' alone, where that separates words.
  return text + fmt::format(R"({0}() {{
  local cur prev words cword
  _init_completion -n = || return
  local IFS=$'\n'
  COMPREPLY=($(IFS=$' \t\n'; {0}__program))
  [[ ${{COMPREPLY[0]-}} == *= ]] && compopt -o nospace
  [[ $prev == --* && -e ${{COMPREPLY[0]-}} ]] && compopt -o filenames
  if [[ $cur == *=* && $COMP_WORDBREAKS == *=* ]]; then
    local before=${{cur%"${{cur##*=}}"}}
    COMPREPLY=("${{COMPREPLY[@]#"$before"}}")
  fi
}}
complete -F {0} {1}
)",
                            function, program.name);
}

std::string zsh_completion(const ProgramText& program, const WordLists& words) {
  std::string functions;
  const std::string arguments = zsh_arguments(program, words, functions);
  std::string body = "  _arguments -S" + arguments;
  if (!program.commands.empty()) {
    std::string names, cases;
    for (const ProgramText& command : program.commands) {
      names += fmt::format(" {}\\:\"{}\"", command.name, zsh_text(escaped(command.summary, "\"")));
      // Another program's completion sees its own name in the place of the subcommand.
      const std::string called = program_of(program, command);
      cases += command.is_program ? fmt::format("    {0}) words[1]={1}; _{1} ;;\n", command.name, called)
                                  : fmt::format("    {})\n      _arguments -S{} ;;\n", command.name,
                                                zsh_arguments(command, words, functions));
    }
    body = fmt::format(
        "  local line state\n  _arguments -C{} \\\n    '1:subcommand:(({}))' \\\n    '*::option:->options'\n"
        "  [[ $state == options ]] || return\n  case $line[1] in\n{}  esac",
        arguments, names, cases);
  }
  const std::string function = function_name(program.name);
  return fmt::format(
      "#compdef {0}\n# Generated from the program's command line.\n\n{1}{2}() {{\n{3}\n}}\n\n{2} \"$@\"\n",
      program.name, functions, function, body);
}

}  // namespace dragonn
