/** Reads the blocks of a Messages request in the words of our models: text, files, calls; the rest is the vendor's own. */
import type { MessagesBlockParam } from '../contract/api.ts';
import type { ModelMessagePart } from '../handler.ts';
import { refusal, required } from './messages-refusal.ts';

/** The content of a message: a text, or blocks. */
export type Content = string | readonly MessagesBlockParam[];

type FilePart = Extract<ModelMessagePart, { type: 'file' }>;
type Read = (block: MessagesBlockParam, pointer: string) => readonly ModelMessagePart[];

/** The blocks one after the other, each with its place. */
export function blocksOf(
  content: Content,
  pointer: string,
): readonly { readonly block: MessagesBlockParam; readonly place: string }[] {
  if (typeof content === 'string') return [{ block: { type: 'text', text: content }, place: pointer }];
  return content.map((block, index) => ({ block, place: `${pointer}/${index}` }));
}

/** What a model is shown of a block; nothing of what only the vendor's own models can read. Throws Problem. */
export function partsOfBlock(block: MessagesBlockParam, pointer: string): readonly ModelMessagePart[] {
  return (readers[block.type] ?? nothing)(block, pointer);
}

/** The text of blocks that may hold nothing else. */
export function textOf(content: Content | null | undefined, pointer: string): string {
  if (content === null || content === undefined) return '';
  if (typeof content === 'string') return content;
  return content
    .flatMap((block, index) => partsOfBlock(block, `${pointer}/${index}`))
    .flatMap((part) => (part.type === 'text' ? [part.text] : []))
    .join('\n');
}

/** What a tool gave: its text, and what else it shows, which most models can only be shown behind it. */
export function resultOf(
  { content }: MessagesBlockParam,
  pointer: string,
): { readonly text: string; readonly files: readonly FilePart[] } {
  const parts = blocksOf(contentOf(content, `${pointer}/content`), `${pointer}/content`).flatMap(
    ({ block, place }) => partsOfBlock(block, place),
  );
  return {
    text: parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n'),
    files: parts.filter((part) => part.type === 'file'),
  };
}

const nothing: Read = () => [];

const readers: Partial<Record<MessagesBlockParam['type'], Read>> = {
  text: ({ text }, pointer) => [{ type: 'text', text: required(text, `${pointer}/text`) }],
  image: ({ source }, pointer) => [imageOf(objectOf(source, `${pointer}/source`), `${pointer}/source`)],
  document: documentOf,
  search_result: searchResult,
  tool_reference: (block) => [{ type: 'text', text: `The tool ${String(block.tool_name)} is available.` }],
  tool_use({ id, name, input }, pointer) {
    const call = { id: required(id, `${pointer}/id`), name: required(name, `${pointer}/name`) };
    return [{ type: 'tool_use', ...call, input: objectOf(input, `${pointer}/input`) }];
  },
  // Only its vendor is shown a thought again, with what it signed it by.
  thinking({ thinking, signature }, pointer) {
    const text = required(thinking, `${pointer}/thinking`);
    return [{ type: 'reasoning', text, ...(signature && { signature }) }];
  },
  redacted_thinking(block) {
    const data: unknown = Reflect.get(block, 'data');
    return typeof data === 'string' ? [{ type: 'reasoning', text: '', redacted: data }] : [];
  },
  // What the vendor keeps of a conversation that it has cut.
  compaction: ({ content }) => (typeof content === 'string' ? [{ type: 'text', text: content }] : []),
};

/** As messages have it of files: what is longer is a text, and tells nobody which file it is. */
const longestName = 1000;
const pictures = ['image/jpeg', 'image/png', 'image/gif', 'image/webp'];

function imageOf(source: Source, pointer: string): FilePart {
  if (source.type === 'base64') {
    const mediaType = source.media_type;
    if (typeof mediaType !== 'string' || !pictures.includes(mediaType))
      throw refusal(`${pointer}/media_type`, `must be one of ${pictures.join(', ')}`, 'enum');
    return { type: 'file', mediaType, data: base64Of(source, pointer) };
  }
  if (source.type === 'url') return { type: 'file', mediaType: 'image/*', data: addressOf(source, pointer) };
  throw otherSource(source, pointer, 'base64 or url');
}

function documentOf(block: MessagesBlockParam, pointer: string): readonly ModelMessagePart[] {
  const place = `${pointer}/source`;
  const source = objectOf(block.source, place);
  const name = block.title ? { name: block.title.slice(0, longestName).toWellFormed() } : {};
  const mediaType = 'application/pdf';
  if (source.type === 'base64') return [{ type: 'file', mediaType, data: base64Of(source, place), ...name }];
  if (source.type === 'url') return [{ type: 'file', mediaType, data: addressOf(source, place), ...name }];
  if (source.type === 'text') return [document(block, stringOf(source, 'data', place))];
  if (source.type !== 'content') throw otherSource(source, place, 'base64, url, text or content');
  const parts = blocksOf(contentOf(source.content, `${place}/content`), `${place}/content`).flatMap((inner) =>
    partsOfBlock(inner.block, inner.place),
  );
  return parts.map((part) => (part.type === 'text' ? document(block, part.text) : part));
}

/** A document that is nothing but text, with what is said of it. */
function document({ title, context }: MessagesBlockParam, text: string): ModelMessagePart {
  return { type: 'text', text: [title, context, text].filter(Boolean).join('\n\n') };
}

function searchResult(
  { title, source, content }: MessagesBlockParam,
  pointer: string,
): readonly ModelMessagePart[] {
  const text = textOf(contentOf(content, `${pointer}/content`), `${pointer}/content`);
  const address = typeof source === 'string' ? source : '';
  return [{ type: 'text', text: [title, address, text].filter(Boolean).join('\n') }];
}

/** A member whose form depends on the type of its block, so that the contract leaves it open. */
type Source = Readonly<Record<string, unknown>>;

function objectOf(value: unknown, pointer: string): Record<string, unknown> {
  required(value, pointer);
  if (typeof value !== 'object' || Array.isArray(value)) throw refusal(pointer, 'must be object', 'type');
  return { ...value };
}

function stringOf(source: Source, member: string, pointer: string): string {
  const value = required(source[member], `${pointer}/${member}`);
  if (typeof value !== 'string') throw refusal(`${pointer}/${member}`, 'must be string', 'type');
  return value;
}

/** Only its beginning is looked at: it is large, and its provider reads all of it. */
function base64Of(source: Source, pointer: string): string {
  const data = stringOf(source, 'data', pointer);
  if (data === '' || !/^[A-Za-z0-9+/=\s]+$/.test(data.slice(0, 1000)))
    throw refusal(`${pointer}/data`, 'must be base64', 'format');
  return data;
}

function addressOf(source: Source, pointer: string): URL {
  const url = stringOf(source, 'url', pointer);
  const parsed = URL.parse(url);
  if (!parsed || !['http:', 'https:'].includes(parsed.protocol))
    throw refusal(`${pointer}/url`, 'must be an address that begins with https://', 'format');
  return parsed;
}

function otherSource({ type }: Source, pointer: string, known: string): Error {
  if (type === 'file')
    return refusal(`${pointer}/type`, 'file: files are not kept by this server; send their content', 'enum');
  return refusal(`${pointer}/type`, `must be ${known}`, 'enum');
}

/** What stands within a block; its inner blocks have not passed the contract. */
function contentOf(content: unknown, pointer: string): Content {
  if (content === undefined || content === null) return [];
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) throw refusal(pointer, 'must be a string or a list of blocks', 'type');
  return content.map((block: unknown, index) => innerBlock(block, `${pointer}/${index}`));
}

const innerTypes: readonly string[] = [
  'text',
  'image',
  'document',
  'search_result',
  'tool_reference',
  'browser_state',
];

/** Those that are read as text, and whether they may be null. */
const textMembers = [
  ['text', false],
  ['title', true],
  ['context', true],
] as const;

function innerBlock(block: unknown, pointer: string): MessagesBlockParam {
  const members = objectOf(block, pointer);
  const { type } = members;
  if (typeof type !== 'string' || !innerTypes.includes(type))
    throw refusal(`${pointer}/type`, `must be one of ${innerTypes.join(', ')}`, 'enum');
  for (const [name, mayBeNull] of textMembers) {
    const value = members[name];
    const isAbsent = value === undefined || (mayBeNull && value === null);
    if (!isAbsent && typeof value !== 'string') throw refusal(`${pointer}/${name}`, 'must be string', 'type');
  }
  return block as MessagesBlockParam; // its type was looked at, and its other members are read with care
}
