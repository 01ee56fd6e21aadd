/** What is said of a document besides its bytes: its name tells which kind of text it is, if it is text. */

export interface DocumentClaims {
  readonly name: string;
  /** In which encoding it is, by whoever sent it; null where nobody said. */
  readonly charset: string | null;
}

/** Raised whenever a parser reads something else from the same bytes: what it had read before is then read anew. */
const version = 4;

/** Names what reads a file of which that is said, so that what it read is found again. */
export function parserOf({ name, charset }: DocumentClaims): string {
  const kind = `${version}:${textKindOf(name)}`;
  return charset === null ? kind : `${kind}:${charset}`;
}

export type TextKind = 'markdown' | 'html' | 'csv' | 'code' | 'text';

const endings: Readonly<Record<Exclude<TextKind, 'text'>, RegExp>> = {
  markdown: /\.(md|markdown|mdx)$/i,
  html: /\.(html?|xhtml)$/i,
  csv: /\.(csv|tsv)$/i,
  code: /\.([cm]?[jt]sx?|py|rb|go|rs|java|kt|kts|scala|c|h|cc|cpp|hpp|cs|php|swift|m|mm|sh|bash|zsh|ps1|pl|lua|r|jl|sql|proto|graphql|tf|hcl|ya?ml|toml|ini|json|jsonl|xml|xsl|css|scss|less|vue|svelte|dockerfile|gradle|groovy|ex|exs|erl|hs|ml|clj|dart|zig|nim)$/i,
};

export function textKindOf(name: string): TextKind {
  for (const [kind, ending] of Object.entries(endings)) if (ending.test(name)) return kind as TextKind; // the names of the table
  return 'text';
}
