/** Which files a language server reads, and what the protocol calls their language. */
import { basename } from 'node:path';

/** The protocol's names, where they are not the ending itself. */
const languageIds: Readonly<Record<string, string>> = {
  ts: 'typescript',
  mts: 'typescript',
  cts: 'typescript',
  tsx: 'typescriptreact',
  js: 'javascript',
  mjs: 'javascript',
  cjs: 'javascript',
  jsx: 'javascriptreact',
  py: 'python',
  pyi: 'python',
  rs: 'rust',
  'go.mod': 'go.mod',
  'go.work': 'go.work',
  tmpl: 'gotmpl',
  h: 'c',
  cc: 'cpp',
  cxx: 'cpp',
  hh: 'cpp',
  hpp: 'cpp',
  hxx: 'cpp',
  m: 'objective-c',
  mm: 'objective-cpp',
  sh: 'shellscript',
  bash: 'shellscript',
  zsh: 'shellscript',
  yml: 'yaml',
  md: 'markdown',
  htm: 'html',
  kt: 'kotlin',
  kts: 'kotlin',
  cs: 'csharp',
  fs: 'fsharp',
  fsi: 'fsharp',
  fsx: 'fsharp',
  rb: 'ruby',
  rake: 'ruby',
  gemspec: 'ruby',
  gemfile: 'ruby',
  rakefile: 'ruby',
  pl: 'perl',
  pm: 'perl',
  ex: 'elixir',
  exs: 'elixir',
  erl: 'erlang',
  hrl: 'erlang',
  hs: 'haskell',
  ml: 'ocaml',
  mli: 'ocaml.interface',
  clj: 'clojure',
  cljs: 'clojure',
  cljc: 'clojure',
  tf: 'terraform',
  tfvars: 'terraform-vars',
  tex: 'latex',
  bib: 'bibtex',
  typ: 'typst',
  containerfile: 'dockerfile',
  f90: 'fortran',
  f95: 'fortran',
};

/** What the protocol calls the language of a file. */
export function languageIdOf(path: string): string {
  const name = basename(path).toLowerCase();
  const ending = endingOf(name);
  return languageIds[name] ?? languageIds[ending] ?? (ending || 'plaintext');
}

/** Whether one of these types is the file's: by its ending, its whole name, or the protocol's name of its language. */
export function isOfType(path: string, filetypes: readonly string[]): boolean {
  const name = basename(path);
  const language = languageIdOf(path);
  return filetypes.some((type) => {
    const bare = type.replace(/^\*?\./, '');
    return bare === name || name.endsWith(`.${bare}`) || bare === language;
  });
}

function endingOf(name: string): string {
  const dot = name.lastIndexOf('.');
  return dot < 0 ? name : name.slice(dot + 1);
}
