# Drives the Ruby gem `stomp` (Debian package ruby-stomp) by lines of JSON; piped.py has the format.
require 'base64'
require 'json'
require 'stomp'
require 'timeout'

$stdout.sync = true
$connections = {}
$frames = []

def utf8(text)
  text.to_s.dup.force_encoding(Encoding::UTF_8).scrub
end

def answer(message)
  return { lost: true } if message.nil?
  $frames << message
  # The gem gives an array for a header that came more than once; the first one counts.
  headers = message.headers.to_h { |name, value| [utf8(name), utf8(value.is_a?(Array) ? value[0] : value)] }
  body = Base64.strict_encode64(message.body.to_s)
  { frame: { command: message.command, headers: headers, body: body, number: $frames.size - 1 } }
end

def connect(request)
  headers = {}
  headers = { 'accept-version' => request['version'], 'host' => request['host'] } if request['version'] != '1.0'
  host = { login: request['login'], passcode: request['passcode'], host: '127.0.0.1', port: request['port'] }
  connection = Stomp::Connection.new(hosts: [host], reliable: false, connect_headers: headers,
                                     parse_timeout: request['patience'], connread_timeout: request['patience'])
  $connections[request['connection']] = connection
  answer(connection.connection_frame)
end

def acknowledge(connection, verb, request)
  message = $frames[request['frame']]
  headers = request['headers']
  headers = headers.merge('subscription' => message.headers['subscription']) if connection.protocol == '1.1'
  connection.send(verb, message.headers[connection.protocol == '1.2' ? 'ack' : 'message-id'], headers)
end

def perform(request)
  return connect(request) if request['do'] == 'connect'
  connection = $connections.fetch(request['connection'])
  headers = request['headers']
  case request['do']
  when 'send'
    connection.publish(request['destination'], Base64.strict_decode64(request['body']), headers)
  when 'subscribe'
    connection.subscribe(request['destination'], headers)
  when 'unsubscribe'
    connection.unsubscribe(request['destination'], headers)
  when 'ack', 'nack'
    acknowledge(connection, request['do'], request)
  when 'begin', 'commit', 'abort'
    connection.send(request['do'], request['transaction'], headers)
  when 'receive'
    begin
      return answer(Timeout.timeout(request['patience']) { connection.receive })
    rescue EOFError, Errno::ECONNRESET, Stomp::Error::NoCurrentConnection
      return { lost: true }
    end
  when 'disconnect'
    Timeout.timeout(request['patience']) { connection.disconnect('receipt' => 'bye') }
  when 'drop'
    connection.instance_variable_get(:@socket).close
  end
  { done: true }
end

$stdin.each_line do |line|
  begin
    reply = perform(JSON.parse(line))
  rescue StandardError => error
    reply = { failed: "#{error.class}: #{utf8(error.message)}" }
  end
  puts JSON.generate(reply)
end
