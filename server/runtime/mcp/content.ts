/** What MCP servers answer, as text for a model. */
import { isDeepStrictEqual } from 'node:util';
import type {
  BlobResourceContents,
  CallToolResult,
  ContentBlock,
  TextResourceContents,
} from '@modelcontextprotocol/client';
import { BoundedOutput } from '../tools/bounded-output.ts';
import { oneLine } from './failure.ts';

const longestText = 30_000;
const longestFact = 2000;

/** The middle of what is too long is left out. */
export function bounded(text: string): string {
  const output = new BoundedOutput(longestText);
  output.push(text.toWellFormed().replaceAll('\u0000', '\ufffd'));
  return output.text();
}

/** The answer of a tool. */
export function textOfResult({ content = [], structuredContent }: CallToolResult): string {
  const parts = content.map(textOfBlock);
  // A server should repeat it as text, for readers that know no other.
  if (structuredContent !== undefined && !isSaid(structuredContent, content))
    parts.push(JSON.stringify(structuredContent));
  return bounded(parts.join('\n\n')) || '(The tool gave no output.)';
}

/** One block of an answer or of a prompt. */
export function textOfBlock(block: ContentBlock): string {
  switch (block.type) {
    case 'text':
      return block.text;
    case 'image':
    case 'audio':
      return `[${block.type}, ${typeOf(block)}, ${sizeOf(block.data)}; it cannot be shown here]`;
    case 'resource_link': {
      const facts = [typeOf(block), oneLine(block.description ?? '', longestFact)].filter(Boolean).join('; ');
      return `[resource ${uriOf(block)}: ${oneLine(block.title ?? block.name, longestFact)}${facts ? ` (${facts})` : ''}]`;
    }
    case 'resource':
      return textOfResource(block.resource);
  }
}

/** The content of a resource. */
export function textOfResource(resource: TextResourceContents | BlobResourceContents): string {
  const type = resource.mimeType ? `, ${typeOf(resource)}` : '';
  if ('text' in resource) return `[resource ${uriOf(resource)}${type}]\n${resource.text}`;
  return `[resource ${uriOf(resource)}${type}, ${sizeOf(resource.blob)}; it is no text]`;
}

/** What stands in our own words about a content is a line, and leaves room for the content. */
function typeOf({ mimeType = '' }: { readonly mimeType?: string | undefined }): string {
  return oneLine(mimeType, 200);
}

function uriOf({ uri }: { readonly uri: string }): string {
  return oneLine(uri, 4000);
}

/** Whether one of the blocks says the same. There may be hundreds of thousands of them. */
function isSaid(structured: unknown, content: readonly ContentBlock[]): boolean {
  const written = JSON.stringify(structured);
  // Some wrap their text into an object, since only objects count as structured.
  const values = typeof structured === 'object' && structured !== null ? Object.values(structured) : [];
  return content.some((block) => {
    if (block.type !== 'text') return false;
    if (block.text === written || (values.length === 1 && values[0] === block.text)) return true;
    // However it is written: a much shorter text is not worth a look.
    return block.text.length * 4 >= written.length && isJsonOf(structured, block.text);
  });
}

function isJsonOf(structured: unknown, text: string): boolean {
  try {
    return isDeepStrictEqual(JSON.parse(text), structured);
  } catch {
    return false; // It is no JSON.
  }
}

function sizeOf(base64: string): string {
  return `${Math.ceil((base64.length * 3) / 4 / 1024)} KB`;
}
