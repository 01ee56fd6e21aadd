/** Forms as bytes. */

/**
 * A form as the body that a request would make of it, which holds no file either. Node breaks off the process where an answer
 * comes before a form is sent: it goes on writing into a stream that it has closed. Bytes it sends another way.
 */
export function multipartOf(form: FormData): Blob {
  // In lower case, as the type of a blob is.
  const boundary = `form-${Array.from(crypto.getRandomValues(new Uint8Array(16)), hex).join('')}`;
  const parts: (string | Blob)[] = [];
  for (const [name, value] of form) {
    const head = `--${boundary}\r\nContent-Disposition: form-data; name="${escaped(name.replace(lineBreak, '\r\n'))}"`;
    if (typeof value === 'string') parts.push(`${head}\r\n\r\n${value.replace(lineBreak, '\r\n')}\r\n`);
    else {
      const type = value.type || 'application/octet-stream';
      parts.push(
        `${head}; filename="${escaped(value.name)}"\r\nContent-Type: ${type}\r\n\r\n`,
        value,
        '\r\n',
      );
    }
  }
  return new Blob([...parts, `--${boundary}--\r\n`], { type: `multipart/form-data; boundary=${boundary}` });
}

const lineBreak = /\r\n|\r|\n/g;

function hex(byte: number): string {
  return byte.toString(16).padStart(2, '0');
}

/** As the HTML standard has it for names, of fields and of files. */
function escaped(name: string): string {
  return name.replaceAll('\n', '%0A').replaceAll('\r', '%0D').replaceAll('"', '%22');
}
