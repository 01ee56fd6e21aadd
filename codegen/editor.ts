/** Plays an editor that edits a settings file: the JSON language service of VS Code, set up as VS Code does. */
import { readFile } from 'node:fs/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import json, {
  type CompletionItem,
  getLanguageService,
  type LanguageService,
  type SchemaConfiguration,
} from 'vscode-json-languageservice';
import { TextDocument } from 'vscode-languageserver-textdocument';

// The package is CommonJS whose other values Node does not see by name.
const { ClientCapabilities, DiagnosticSeverity, ErrorCode } = json;

/** A diagnostic as a person sees it: lines and columns count from 1. */
export interface Squiggle {
  readonly severity: 'error' | 'warning' | 'other';
  /** `line:column-line:column`, or without the second line where it is the same. */
  readonly range: string;
  /** What is underlined. */
  readonly text: string;
  readonly message: string;
  /** A warning that the key has a successor, which editors may show in a way of their own. */
  readonly deprecated: boolean;
}

/** An editor. In every text `|` may stand for the cursor. */
export interface Editor {
  squiggles(text: string, file?: OpenedFile): Promise<Squiggle[]>;
  completions(text: string, file?: OpenedFile): Promise<CompletionItem[]>;
  /** What is shown where the cursor rests, as plain text; null where nothing is. */
  hover(text: string, file?: OpenedFile): Promise<string | null>;
}

/** The file that is open, and what the editor takes it for. */
export interface OpenedFile {
  readonly path: string;
  readonly language: 'json' | 'jsonc';
}

const usual: OpenedFile = { path: '/project/service.json', language: 'json' };

/** Opens an editor whose settings associate schemas with files; a schema that a file names itself is fetched. */
export function openEditor(
  schemas: SchemaConfiguration[],
  fetchSchema: (uri: string) => Promise<string> = (uri) => readFile(fileURLToPath(uri), 'utf8'),
): Editor {
  const service = getLanguageService({
    clientCapabilities: ClientCapabilities.LATEST,
    schemaRequestService: fetchSchema,
    workspaceContext: { resolveRelativePath: (path, from) => new URL(path, from).href },
  });
  service.configure({ validate: true, allowComments: false, schemas });
  return {
    squiggles: (text, file = usual) => squiggles(service, text, file),
    async completions(text, file = usual) {
      const { document, cursor } = open(text, file);
      const list = await service.doComplete(document, cursor, service.parseJSONDocument(document));
      return list?.items ?? [];
    },
    async hover(text, file = usual) {
      const { document, cursor } = open(text, file);
      const hover = await service.doHover(document, cursor, service.parseJSONDocument(document));
      const [markdown] = (hover?.contents ?? []) as string[]; // the service answers with a list of one
      return markdown ? markdown.replaceAll(/\\([\\`*_{}[\]()<>#+\-.!])/g, '$1') : null;
    },
  };
}

async function squiggles(service: LanguageService, text: string, file: OpenedFile): Promise<Squiggle[]> {
  const document = TextDocument.create(pathToFileURL(file.path).href, file.language, 1, text);
  // What the extension of VS Code that speaks to the service says for each of the two languages.
  const settings =
    file.language === 'jsonc'
      ? ({ comments: 'ignore', trailingCommas: 'warning' } as const)
      : ({ comments: 'error', trailingCommas: 'error' } as const);
  const found = await service.doValidation(document, service.parseJSONDocument(document), settings);
  return found.map(({ severity, range: { start, end }, message, code }) => {
    const until = start.line === end.line ? end.character + 1 : `${end.line + 1}:${end.character + 1}`;
    return {
      severity: severities[severity ?? DiagnosticSeverity.Error] ?? 'other',
      range: `${start.line + 1}:${start.character + 1}-${until}`,
      text: document.getText({ start, end }),
      message: typeof message === 'string' ? message : message.value,
      deprecated: code === ErrorCode.Deprecated,
    };
  });
}

const severities: Readonly<Record<number, Squiggle['severity']>> = {
  [DiagnosticSeverity.Error]: 'error',
  [DiagnosticSeverity.Warning]: 'warning',
};

function open(text: string, { path, language }: OpenedFile) {
  const at = text.indexOf('|');
  if (at < 0) throw new Error('The text has no cursor');
  const content = text.slice(0, at) + text.slice(at + 1);
  const document = TextDocument.create(pathToFileURL(path).href, language, 1, content);
  return { document, cursor: document.positionAt(at) };
}
