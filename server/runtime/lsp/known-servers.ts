/** The language servers that need no description in the settings: how each is started, for which files, and where. */

/** A public language server. */
export interface KnownServer {
  readonly name: string;
  readonly command: string;
  readonly args?: readonly string[];
  /** Endings of file names without the dot, or whole names. */
  readonly filetypes: readonly string[];
  readonly root_markers: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly init_options?: Readonly<Record<string, unknown>>;
  readonly settings?: Readonly<Record<string, unknown>>;
  /**
   * Why it is not started unless the settings name it or it runs in the sandbox: what the files of a project make it
   * do. Absent where nothing in a project makes it run code or reach the network.
   */
  readonly needs_naming?: string;
}

// Names, commands, file types and markers are facts from the documentation of each server: their own repositories, and
// the lists of language servers that Neovim, Helix and Emacs keep. What a server runs was read in its documentation.

const buildsTheProject = 'it runs the build of the project';
const loadsTheProject = 'it loads code of the project';

/** In order of preference: of those that could serve a file unnamed, the first does. */
export const knownServers: readonly KnownServer[] = [
  {
    name: 'gopls',
    command: 'gopls',
    filetypes: ['go', 'go.mod', 'go.work', 'tmpl', 'gotmpl'],
    root_markers: ['go.work', 'go.mod'],
    // A go.mod may ask for another toolchain and for modules from anywhere: neither is fetched unasked.
    env: { GOTOOLCHAIN: 'local', GOPROXY: 'off', GOFLAGS: '-mod=readonly' },
  },
  {
    name: 'typescript-language-server',
    command: 'typescript-language-server',
    args: ['--stdio'],
    filetypes: ['ts', 'tsx', 'mts', 'cts', 'js', 'jsx', 'mjs', 'cjs'],
    root_markers: ['tsconfig.json', 'jsconfig.json', 'package.json'],
    // Types of packages would be fetched by npm.
    init_options: { disableAutomaticTypingAcquisition: true },
  },
  {
    name: 'pyright',
    command: 'pyright-langserver',
    args: ['--stdio'],
    filetypes: ['py', 'pyi'],
    root_markers: [
      'pyrightconfig.json',
      'pyproject.toml',
      'setup.py',
      'setup.cfg',
      'requirements.txt',
      'Pipfile',
    ],
    settings: { python: { analysis: { autoSearchPaths: true, useLibraryCodeForTypes: true } } },
  },
  {
    name: 'basedpyright',
    command: 'basedpyright-langserver',
    args: ['--stdio'],
    filetypes: ['py', 'pyi'],
    root_markers: ['pyrightconfig.json', 'pyproject.toml', 'setup.py', 'setup.cfg', 'requirements.txt'],
    needs_naming: 'it runs the .venv/bin/python of the project',
  },
  {
    name: 'ruff',
    command: 'ruff',
    args: ['server'],
    filetypes: ['py', 'pyi'],
    root_markers: ['ruff.toml', '.ruff.toml', 'pyproject.toml'],
  },
  {
    name: 'pylsp',
    command: 'pylsp',
    filetypes: ['py'],
    root_markers: ['pyproject.toml', 'setup.py', 'setup.cfg', 'requirements.txt'],
    needs_naming: 'its linters run hooks of the project',
  },
  {
    name: 'rust-analyzer',
    command: 'rust-analyzer',
    filetypes: ['rs'],
    root_markers: ['Cargo.toml', 'rust-project.json'],
    needs_naming: 'it runs build scripts and procedural macros of the project',
  },
  {
    name: 'clangd',
    command: 'clangd',
    filetypes: ['c', 'h', 'cc', 'cpp', 'cxx', 'hh', 'hpp', 'hxx', 'm', 'mm', 'cu'],
    root_markers: ['compile_commands.json', 'compile_flags.txt', '.clangd', 'CMakeLists.txt', 'Makefile'],
  },
  {
    name: 'lua-language-server',
    command: 'lua-language-server',
    filetypes: ['lua'],
    root_markers: ['.luarc.json', '.luarc.jsonc', '.luacheckrc', 'stylua.toml'],
    needs_naming: 'it loads plugins of the project',
  },
  {
    name: 'bash-language-server',
    command: 'bash-language-server',
    args: ['start'],
    filetypes: ['sh', 'bash'],
    root_markers: ['.git'],
  },
  {
    name: 'json',
    command: 'vscode-json-language-server',
    args: ['--stdio'],
    filetypes: ['json', 'jsonc'],
    root_markers: ['package.json', '.git'],
    // Schemas at other addresses would be fetched.
    init_options: { handledSchemaProtocols: ['file'], provideFormatter: false },
  },
  {
    name: 'css',
    command: 'vscode-css-language-server',
    args: ['--stdio'],
    filetypes: ['css', 'scss', 'less'],
    root_markers: ['package.json', '.git'],
  },
  {
    name: 'html',
    command: 'vscode-html-language-server',
    args: ['--stdio'],
    filetypes: ['html', 'htm'],
    root_markers: ['package.json', '.git'],
  },
  {
    name: 'eslint',
    command: 'vscode-eslint-language-server',
    args: ['--stdio'],
    filetypes: ['js', 'jsx', 'ts', 'tsx', 'mjs', 'cjs'],
    root_markers: [
      'eslint.config.js',
      'eslint.config.mjs',
      'eslint.config.ts',
      '.eslintrc.json',
      '.eslintrc.js',
    ],
    needs_naming: loadsTheProject,
  },
  {
    name: 'biome',
    command: 'biome',
    args: ['lsp-proxy'],
    filetypes: ['js', 'jsx', 'ts', 'tsx', 'json', 'jsonc', 'css'],
    root_markers: ['biome.json', 'biome.jsonc'],
    needs_naming: 'it leaves a daemon behind',
  },
  {
    name: 'svelte',
    command: 'svelteserver',
    args: ['--stdio'],
    filetypes: ['svelte'],
    root_markers: ['svelte.config.js', 'package.json'],
    needs_naming: loadsTheProject,
  },
  {
    name: 'vue',
    command: 'vue-language-server',
    args: ['--stdio'],
    filetypes: ['vue'],
    root_markers: ['vue.config.js', 'vite.config.ts', 'package.json'],
    needs_naming: loadsTheProject,
  },
  {
    name: 'astro',
    command: 'astro-ls',
    args: ['--stdio'],
    filetypes: ['astro'],
    root_markers: ['astro.config.mjs', 'package.json'],
    needs_naming: loadsTheProject,
  },
  {
    name: 'tailwindcss',
    command: 'tailwindcss-language-server',
    args: ['--stdio'],
    filetypes: ['css', 'html', 'jsx', 'tsx', 'vue', 'svelte'],
    root_markers: ['tailwind.config.js', 'tailwind.config.ts'],
    needs_naming: loadsTheProject,
  },
  {
    name: 'graphql',
    command: 'graphql-lsp',
    args: ['server', '-m', 'stream'],
    filetypes: ['graphql', 'gql'],
    root_markers: ['.graphqlrc', '.graphqlrc.yml', 'graphql.config.js', 'graphql.config.ts'],
    needs_naming: loadsTheProject,
  },
  {
    name: 'prisma',
    command: 'prisma-language-server',
    args: ['--stdio'],
    filetypes: ['prisma'],
    root_markers: ['schema.prisma', 'package.json'],
    needs_naming: loadsTheProject,
  },
  {
    name: 'yaml',
    command: 'yaml-language-server',
    args: ['--stdio'],
    filetypes: ['yaml', 'yml'],
    root_markers: ['.git'],
    settings: { yaml: { schemaStore: { enable: false } }, redhat: { telemetry: { enabled: false } } },
    needs_naming: 'it fetches schemas from addresses that a file names',
  },
  {
    name: 'taplo',
    command: 'taplo',
    args: ['lsp', 'stdio'],
    filetypes: ['toml'],
    root_markers: ['.taplo.toml', 'taplo.toml', '.git'],
    needs_naming: 'it fetches schemas from addresses that a file names',
  },
  {
    name: 'dockerfile',
    command: 'docker-langserver',
    args: ['--stdio'],
    filetypes: ['dockerfile', 'Dockerfile', 'Containerfile'],
    root_markers: ['Dockerfile', 'Containerfile'],
  },
  {
    name: 'marksman',
    command: 'marksman',
    args: ['server'],
    filetypes: ['md', 'markdown'],
    root_markers: ['.marksman.toml'],
  },
  {
    name: 'terraform-ls',
    command: 'terraform-ls',
    args: ['serve'],
    filetypes: ['tf', 'tfvars'],
    root_markers: ['.terraform', '*.tf'],
    needs_naming: 'it runs providers that the project has installed',
  },
  {
    name: 'jdtls',
    command: 'jdtls',
    filetypes: ['java'],
    root_markers: ['pom.xml', 'build.gradle', 'build.gradle.kts', '.classpath'],
    needs_naming: buildsTheProject,
  },
  {
    name: 'kotlin-language-server',
    command: 'kotlin-language-server',
    filetypes: ['kt', 'kts'],
    root_markers: ['build.gradle', 'build.gradle.kts', 'pom.xml'],
    needs_naming: buildsTheProject,
  },
  {
    name: 'metals',
    command: 'metals',
    filetypes: ['scala', 'sbt', 'sc'],
    root_markers: ['build.sbt', 'build.sc', 'build.gradle', 'pom.xml'],
    needs_naming: buildsTheProject,
  },
  {
    name: 'csharp-ls',
    command: 'csharp-ls',
    filetypes: ['cs'],
    root_markers: ['*.sln', '*.csproj'],
    needs_naming: buildsTheProject,
  },
  {
    name: 'omnisharp',
    command: 'OmniSharp',
    args: ['--languageserver'],
    filetypes: ['cs'],
    root_markers: ['*.sln', '*.csproj', 'omnisharp.json'],
    needs_naming: buildsTheProject,
  },
  {
    name: 'fsautocomplete',
    command: 'fsautocomplete',
    args: ['--adaptive-lsp-server-enabled'],
    filetypes: ['fs', 'fsi', 'fsx'],
    root_markers: ['*.sln', '*.fsproj'],
    needs_naming: buildsTheProject,
  },
  {
    name: 'ruby-lsp',
    command: 'ruby-lsp',
    filetypes: ['rb', 'rake', 'gemspec', 'Gemfile', 'Rakefile'],
    root_markers: ['Gemfile'],
    needs_naming: loadsTheProject,
  },
  {
    name: 'solargraph',
    command: 'solargraph',
    args: ['stdio'],
    filetypes: ['rb', 'rake', 'gemspec'],
    root_markers: ['Gemfile', '.solargraph.yml'],
    needs_naming: loadsTheProject,
  },
  {
    name: 'phpactor',
    command: 'phpactor',
    args: ['language-server'],
    filetypes: ['php'],
    root_markers: ['composer.json', '.phpactor.json'],
    needs_naming: loadsTheProject,
  },
  {
    name: 'intelephense',
    command: 'intelephense',
    args: ['--stdio'],
    filetypes: ['php', 'phtml'],
    root_markers: ['composer.json'],
    needs_naming: 'it may ask its vendor about a licence',
  },
  {
    name: 'elixir-ls',
    command: 'elixir-ls',
    filetypes: ['ex', 'exs', 'heex'],
    root_markers: ['mix.exs'],
    needs_naming: buildsTheProject,
  },
  {
    name: 'erlang-ls',
    command: 'erlang_ls',
    filetypes: ['erl', 'hrl'],
    root_markers: ['rebar.config', 'erlang.mk', 'erlang_ls.config'],
    needs_naming: loadsTheProject,
  },
  {
    name: 'haskell-language-server',
    command: 'haskell-language-server-wrapper',
    args: ['--lsp'],
    filetypes: ['hs', 'lhs'],
    root_markers: ['stack.yaml', 'cabal.project', 'package.yaml', '*.cabal', 'hie.yaml'],
    needs_naming: 'it runs compile-time code of the project',
  },
  {
    name: 'ocamllsp',
    command: 'ocamllsp',
    filetypes: ['ml', 'mli'],
    root_markers: ['dune-project', 'dune-workspace', '*.opam'],
    needs_naming: 'it runs preprocessors of the project',
  },
  {
    name: 'zls',
    command: 'zls',
    filetypes: ['zig', 'zon'],
    root_markers: ['build.zig', 'zls.json'],
    needs_naming: buildsTheProject,
  },
  {
    name: 'sourcekit-lsp',
    command: 'sourcekit-lsp',
    filetypes: ['swift'],
    root_markers: ['Package.swift', '*.xcodeproj'],
    needs_naming: 'it runs the package manifest of the project',
  },
  {
    name: 'dart',
    command: 'dart',
    args: ['language-server', '--protocol=lsp'],
    filetypes: ['dart'],
    root_markers: ['pubspec.yaml'],
    needs_naming: 'it loads analyzer plugins of the project',
  },
  {
    name: 'nil',
    command: 'nil',
    filetypes: ['nix'],
    root_markers: ['flake.nix', 'default.nix', 'shell.nix'],
    needs_naming: 'it evaluates the project',
  },
  {
    name: 'nixd',
    command: 'nixd',
    filetypes: ['nix'],
    root_markers: ['flake.nix', 'default.nix', 'shell.nix'],
    needs_naming: 'it evaluates the project',
  },
  {
    name: 'clojure-lsp',
    command: 'clojure-lsp',
    filetypes: ['clj', 'cljs', 'cljc', 'edn'],
    root_markers: ['deps.edn', 'project.clj', 'shadow-cljs.edn', 'build.boot'],
    needs_naming: 'it runs the command that finds the class path',
  },
  {
    name: 'gleam',
    command: 'gleam',
    args: ['lsp'],
    filetypes: ['gleam'],
    root_markers: ['gleam.toml'],
    needs_naming: 'it fetches what the project depends on',
  },
  {
    name: 'tinymist',
    command: 'tinymist',
    args: ['lsp'],
    filetypes: ['typ'],
    root_markers: ['typst.toml', '.git'],
    needs_naming: 'it fetches packages that a file names',
  },
  {
    name: 'perlnavigator',
    command: 'perlnavigator',
    args: ['--stdio'],
    filetypes: ['pl', 'pm', 't'],
    root_markers: ['cpanfile', 'Makefile.PL', 'Build.PL'],
    needs_naming: 'it runs the compile-time code of each file',
  },
  {
    name: 'texlab',
    command: 'texlab',
    filetypes: ['tex', 'bib', 'cls', 'sty'],
    root_markers: ['.latexmkrc', '.texlabroot', 'Tectonic.toml'],
    needs_naming: 'it runs the .latexmkrc of the project',
  },
  {
    name: 'fortls',
    command: 'fortls',
    filetypes: ['f', 'for', 'f90', 'f95', 'f03', 'f08'],
    root_markers: ['.fortls', '.fortlsrc', 'fpm.toml'],
    needs_naming: 'it fetches and installs newer versions of itself',
  },
  {
    name: 'vimls',
    command: 'vim-language-server',
    args: ['--stdio'],
    filetypes: ['vim'],
    root_markers: ['.git'],
  },
  {
    name: 'deno',
    command: 'deno',
    args: ['lsp'],
    filetypes: ['ts', 'tsx', 'js', 'jsx', 'mts', 'mjs'],
    root_markers: ['deno.json', 'deno.jsonc'],
    settings: { deno: { enable: true } },
    needs_naming: 'it fetches what the project imports',
  },
];

/** Programs that run anything: that one of them is there says nothing of a language server. */
export const genericCommands: ReadonlySet<string> = new Set([
  ...['node', 'nodejs', 'npm', 'npx', 'pnpm', 'pnpx', 'yarn', 'bun', 'bunx', 'deno', 'tsx'],
  ...['python', 'python3', 'pip', 'pipx', 'uv', 'uvx', 'poetry', 'conda'],
  ...['java', 'dotnet', 'mono', 'dart', 'flutter', 'go', 'cargo', 'rustup', 'swift', 'xcrun', 'zig'],
  ...['ruby', 'bundle', 'perl', 'php', 'lua', 'julia', 'R', 'Rscript', 'racket', 'nix', 'make'],
  ...['docker', 'podman', 'sh', 'bash', 'zsh', 'fish', 'env', 'sudo', 'ssh'],
]);
