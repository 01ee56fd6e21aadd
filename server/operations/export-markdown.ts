/** A session as Markdown, to read and to put into a ticket. */
import type { ExportedMessage, MessagePart, SessionExport } from '../contract/api.ts';

export function exportAsMarkdown({ session, exported_at, messages }: SessionExport): string {
  const head = [`# ${oneLine(session.title)}`, `Session ${session.id ?? ''}, exported ${exported_at}.`];
  return `${[...head, ...messages.flatMap(describe)].join('\n\n')}\n`;
}

function describe({ role, parts, model, created_at }: ExportedMessage): readonly string[] {
  const body = parts.map(describePart).filter(Boolean);
  if (role === 'tool') return body;
  const speaker = role === 'user' ? 'Person' : oneLine(model ?? 'Assistant');
  return [`## ${speaker}, ${created_at}`, ...body];
}

function describePart(part: MessagePart): string {
  switch (part.type) {
    case 'text':
      return part.text.trim();
    case 'reasoning':
      return quoted(part.text.trim());
    case 'tool_use':
      return `**${oneLine(part.name)}**\n\n${fenced(JSON.stringify(part.input, null, 2), 'json')}`;
    case 'file':
      return `*${oneLine(part.name ?? part.url ?? part.media_type)}*`;
    case 'tool_result':
      return `${part.is_error ? 'It failed:\n\n' : ''}${fenced(part.content, '')}`;
  }
}

function quoted(text: string): string {
  return text
    .split('\n')
    .map((line) => `> ${line}`)
    .join('\n');
}

/** Longer than any fence in the text, which then cannot end it. */
function fenced(text: string, language: string): string {
  const longest = (text.match(/`+/g) ?? []).reduce((most, { length }) => Math.max(most, length), 2);
  const fence = '`'.repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').replaceAll(/[\\`*_[\]<>#]/g, '\\$&');
}
