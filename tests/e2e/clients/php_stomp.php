<?php
// Drives PHP's extension `stomp` (Debian packages php-stomp and php-cli) by lines of JSON; piped.py has the format.

$connections = [];
$frames = [];

function answer($frame): array
{
    global $frames;
    if (!$frame) {
        return ['lost' => true];
    }
    $frames[] = $frame;
    $body = base64_encode($frame->body ?? '');
    $headers = (object) $frame->headers;
    return ['frame' => ['command' => $frame->command, 'headers' => $headers, 'body' => $body, 'number' => count($frames) - 1]];
}

// The extension hides an ERROR frame: of its head it shows the message, and the body as details.
function refusal(StompException $error): StompFrame
{
    return new StompFrame('ERROR', ['message' => $error->getMessage()], $error->getDetails());
}

function connect(array $request): array
{
    global $connections;
    try {
        $stomp = new Stomp('tcp://127.0.0.1:' . $request['port'], $request['login'], $request['passcode']);
    } catch (StompException $error) {
        return answer(refusal($error));
    }
    $stomp->setReadTimeout((int) $request['patience']);
    $connections[$request['connection']] = $stomp;
    return answer(new StompFrame('CONNECTED', ['session' => (string) $stomp->getSessionId()], ''));
}

function perform(array $request): array
{
    global $connections, $frames;
    if ($request['do'] === 'connect') {
        return connect($request);
    }
    $stomp = $connections[$request['connection']] ?? null;
    if ($stomp === null) {
        return ['lost' => true];
    }
    $headers = $request['headers'] ?? [];
    switch ($request['do']) {
        case 'send':
            $stomp->send($request['destination'], base64_decode($request['body']), $headers);
            break;
        case 'subscribe':
        case 'unsubscribe':
            $stomp->{$request['do']}($request['destination'], $headers);
            break;
        case 'ack':
        case 'nack':
            $stomp->{$request['do']}($frames[$request['frame']], $headers);
            break;
        case 'begin':
        case 'commit':
        case 'abort':
            $stomp->{$request['do']}($request['transaction'], $headers);
            break;
        case 'receive':
            try {
                return answer($stomp->readFrame());
            } catch (StompException $error) {
                return answer(refusal($error));
            }
        case 'disconnect':
        case 'drop':
            // Its destructor sends DISCONNECT; there is no way to close without.
            unset($connections[$request['connection']]);
            break;
    }
    return ['done' => true];
}

while (($line = fgets(STDIN)) !== false) {
    try {
        $reply = perform(json_decode($line, true, 512, JSON_THROW_ON_ERROR));
    } catch (Throwable $error) {
        $reply = ['failed' => get_class($error) . ': ' . $error->getMessage()];
    }
    echo json_encode($reply, JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE), "\n";
}
