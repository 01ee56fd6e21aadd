/** A session as a page of its own: nothing in it is loaded from elsewhere, and nothing in it runs. */
import type { ExportedMessage, MessagePart, SessionExport } from '../contract/api.ts';

export function exportAsHtml({ session, exported_at, messages }: SessionExport): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>${escaped(session.title)}</title>
<style>${style}</style>
</head>
<body>
<h1>${escaped(session.title)}</h1>
<p class="facts">Session ${escaped(session.id ?? '')}, exported ${escaped(exported_at)}</p>
${messages.map(describe).join('\n')}
</body>
</html>
`;
}

const style = `
body { max-width: 48rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; color: #1b1f24; background: #fff; }
article { margin: 1.5rem 0; } .facts, .who { color: #656d76; font-size: 0.875rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0.5rem 0; font: inherit; }
.reasoning { color: #656d76; border-left: 3px solid #d0d7de; padding-left: 0.75rem; }
details pre, .call { font: 13px/1.5 ui-monospace, monospace; background: #f6f8fa; padding: 0.5rem; border-radius: 6px; }
.failed { color: #b42318; }
@media (prefers-color-scheme: dark) {
  body { color: #e6edf3; background: #0d1117; } details pre, .call { background: #161b22; } .failed { color: #ff7b72; }
}`;

function describe({ role, parts, model, created_at }: ExportedMessage): string {
  const body = parts.map(describePart).join('\n');
  if (role === 'tool') return `<article>${body}</article>`;
  const speaker = role === 'user' ? 'Person' : (model ?? 'Assistant');
  const who = `<p class="who"><strong>${escaped(speaker)}</strong> <time>${escaped(created_at)}</time></p>`;
  return `<article>${who}\n${body}</article>`;
}

function describePart(part: MessagePart): string {
  switch (part.type) {
    case 'text':
      return `<pre>${escaped(part.text)}</pre>`;
    case 'reasoning':
      return `<pre class="reasoning">${escaped(part.text)}</pre>`;
    case 'tool_use':
      return `<pre class="call">${escaped(part.name)} ${escaped(JSON.stringify(part.input))}</pre>`;
    case 'file':
      return `<p class="call">${escaped(part.name ?? part.url ?? part.media_type)}</p>`;
    case 'tool_result':
      return `<details><summary${part.is_error ? ' class="failed"' : ''}>${escaped(part.name)}</summary><pre>${escaped(part.content)}</pre></details>`;
  }
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
